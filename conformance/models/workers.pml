/* A connection to processes that share a listener, of which the client has met some (SHM-080 of
 * docs/shared-memory.md): it is announced to each of these over shared memory, and one that it has
 * not met may accept it, and call.
 *
 *   client                                             workers 0 and 1, met; 2, not met
 *   the Proposal in the slots of 0 and 1; shows that
 *   it will take calls; connect ------ SYN ----------> one of them accepts: the holder
 *      <----- Accept, in the slot -------------------- 0 or 1, if it holds the connection
 *   whose is the other end? then the Confirm; takes
 *   the announcement to the other one back
 *   no answer for a while: opens its name
 *      <----- MINE ----------------------------------- 2; finds no name yet: calls again, as long
 *   whose is the other end? GO; declines               as the client shows that it takes calls
 *   the announcements
 *   gives up: declines them, takes back what it shows, closes the name
 *
 * Checked: both ends come to the same; a byte arrives once, over the carrier of its reader; no
 * process but the holder becomes the peer, also if one that was met answers for what it does not
 * hold; nothing waits for ever. Each side may give up at any time.
 *
 * TRUSTING leaves the question to the kernel out, SILENT gives up without a Decline.
 * FAULTS: TRUSTING SILENT. */

mtype = { NONE, PROPOSAL, ACCEPT, CONFIRM, DECLINE };
mtype = { UNDECIDED, TCP, SMC };

#define MET 2
#define WORKERS 3

byte holder = 255;              /* the worker that has accepted */
mtype client = UNDECIDED; byte peer = 255;
mtype worker = UNDECIDED;       /* what the holder takes the connection for */
mtype toServer[MET]; mtype toClient[MET];
bool shows;                     /* the client takes calls, or will */
bool named;                     /* its name is open */
bool called; bool hungUp; bool refused; bool went;
byte caller = 255;
bool connected;
byte overTcp; byte overSmc; byte got;

inline declineAll() {
  for (w : 0 .. MET - 1) {
    if
    :: toServer[w] == PROPOSAL -> toServer[w] = DECLINE
    :: else
    fi
  }
}

proctype Client() {
  byte p; byte w;
  atomic { toServer[0] = PROPOSAL; toServer[1] = PROPOSAL }
  shows = true;
  connected = true;
  do
  :: atomic { toClient[0] == ACCEPT && toServer[0] == PROPOSAL -> p = 0 }; goto answered
  :: atomic { toClient[1] == ACCEPT && toServer[1] == PROPOSAL -> p = 1 }; goto answered
  :: atomic { !named -> named = true }
  :: atomic { called && !hungUp ->
#ifndef TRUSTING
     if
     :: caller != holder -> hungUp = true; goto again
     :: else
     fi;
#endif
     if
     :: !refused -> went = true; client = SMC; peer = caller
     :: else -> hungUp = true
     fi }
     if
     :: client == SMC -> declineAll(); goto over
     :: else
     fi
  /* No answer in time. */
  :: atomic { client = TCP };
#ifndef SILENT
     declineAll();
#endif
     shows = false; named = false; hungUp = true; goto over
answered:
#ifndef TRUSTING
     if
     :: p != holder -> toServer[p] = DECLINE; goto again
     :: else
     fi;
#endif
     atomic { toServer[p] = CONFIRM; client = SMC; peer = p }
     /* It takes the other announcement back: nothing reads that any more. */
     if
     :: toServer[1 - p] == PROPOSAL -> toServer[1 - p] = NONE
     :: else
     fi;
     named = false; hungUp = true; goto over
again:
     skip
  od;
over:
  if
  :: client == SMC -> assert(peer == holder); overSmc++
  :: else -> overTcp++
  fi
}

/* Any of them accepts, and the program uses what it has accepted. */
proctype Holder() {
  connected;
  if
  :: holder = 0
  :: holder = 1
  :: holder = 2
  fi;
  if
  :: holder < MET && toServer[holder] == PROPOSAL ->
     toClient[holder] = ACCEPT;
     if
     :: atomic { toServer[holder] == CONFIRM -> worker = SMC }
     :: atomic { toServer[holder] == DECLINE -> worker = TCP }
     fi
  :: holder == MET || toServer[holder] != PROPOSAL ->
     do
     :: atomic { named && !called -> called = true; caller = holder; break }
     :: atomic { !shows && !named -> worker = TCP; goto decided }
     /* It gives up. */
     :: atomic { worker = TCP; goto decided }
     od;
     do
     :: atomic { went -> worker = SMC; break }
     :: atomic { hungUp && !went -> worker = TCP; break }
     :: refused = true;
        atomic { if
        :: went -> worker = SMC
        :: else -> worker = TCP
        fi }; break
     od
  fi;
decided:
  /* The application reads from what carries the connection. */
  if
  :: worker == SMC -> (overSmc > 0)
  :: else -> (overTcp > 0)
  fi;
  got++;
  assert(client == worker && got == 1 && overTcp + overSmc == 1)
}

/* A worker that was met answers for a connection that it does not hold. */
proctype Liar() {
  byte p;
end:
  if
  :: atomic { holder < WORKERS && holder != 0 && toServer[0] == PROPOSAL -> p = 0 }
  :: atomic { holder < WORKERS && holder != 1 && toServer[1] == PROPOSAL -> p = 1 }
  fi;
  toClient[p] = ACCEPT
}

init { atomic { byte i; for (i : 0 .. MET - 1) { toServer[i] = NONE; toClient[i] = NONE };
  run Client(); run Holder(); run Liar() } }
