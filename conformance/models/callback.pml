/* Connections of a listener whose connections several processes accept: a parent that made it,
 * workers that it forked, of another user perhaps, and a program that it executed (SHM-076 to
 * SHM-079 of docs/shared-memory.md).
 *
 *   client                                            whichever process accepts: S
 *   has the listener a mark? no: plain
 *   listens at a name made of the cookie of C
 *   connect ------------------- SYN ----------------> accept
 *                                                     first read, write or poll (it may be that
 *                                                     of a child): whose is the other end? C
 *       <--- connects to C's name; MINE: cookie of S, held by me
 *   who holds S? its user must be that of the caller, or the caller root
 *       ---- GO, at most once ----------------------> SMC; its end refuses further bytes when it
 *   gives up: closes the name, then the call          gives up, then looks for GO once more; or
 *                                                     takes the mark off S, without a call
 *
 * Each connection to C's name is an object of the kernel: closing and refusing are atomic with
 * sending on it. Checked: both ends come to the same; a byte arrives once; no process but the
 * holder of S becomes the peer, also of one that may name S; of two holders (a parent and its
 * child have the same descriptor) the one that uses S pairs; nothing waits for ever.
 *
 * STRANGER leaves out the question whose S is, EAGER lets a process pair as it accepts, although
 * a child may use S; FORGETFUL lets who gives up not look for GO once more.
 * FAULTS: STRANGER EAGER FORGETFUL. */

mtype = { UNDECIDED, TCP, SMC };

/* Processes that may call: 0 and 1 are a parent and its child, which share S; 2 is a stranger's,
 * which knows the cookies. */
#define CALLERS 3
#define IS_HOLDER(p) (p < 2)

mtype client = UNDECIDED;
byte peer = 255;             /* the caller that the client has sent GO to */
bool named;                  /* C's name takes calls */
bool accepted;               /* a process holds S */

bool called[CALLERS];        /* MINE is at the client */
bool refused[CALLERS];       /* the caller takes no GO any more */
bool hungUp[CALLERS];        /* the client has closed the call */
bool went[CALLERS];          /* GO is in the caller's queue */
mtype decided[2];            /* what a holder takes the connection for */
byte user = 255;             /* the holder that uses S: of parent and child a program lets one */
byte sent; byte got;

proctype Client() {
  byte p;
  named = true;
  accepted = true;           /* the SYN, and an accept at some time */
  do
  :: atomic { called[0] && !hungUp[0] -> p = 0 }; goto judge
  :: atomic { called[1] && !hungUp[1] -> p = 1 }; goto judge
  :: atomic { called[2] && !hungUp[2] -> p = 2 }; goto judge
  /* The grace is over. */
  :: atomic { named = false; client = TCP }; goto closing
judge:
#ifndef STRANGER
     if
     :: !IS_HOLDER(p) -> hungUp[p] = true; goto again
     :: else
     fi;
#endif
     atomic {
       if
       :: !refused[p] -> went[p] = true; client = SMC; peer = p
       :: refused[p] -> hungUp[p] = true
       fi }
     if
     :: client == SMC -> named = false; goto closing
     :: else
     fi;
again:
     skip
  od;
closing:
  for (p : 0 .. CALLERS - 1) {
    if
    :: went[p] -> skip
    :: else -> hungUp[p] = true
    fi
  }
  sent++
}

/* A process that has S. Of parent and child, the program uses it in one. */
proctype Holder(byte p) {
end:
  (accepted);
#ifdef EAGER
  if
  :: p == 0 -> goto pairs
  :: else
  fi;
#endif
  if
  :: atomic { user == 255 -> user = p }
  :: atomic { user != 255 -> goto over }
  fi;
#ifdef EAGER
  decided[p] = decided[0];
  goto uses;
pairs:
#endif
  if
  :: atomic { named -> called[p] = true };
     do
     :: atomic { went[p] -> decided[p] = SMC }; break
     :: atomic { hungUp[p] && !went[p] -> decided[p] = TCP }; break
     /* It gives up: it refuses GO, then looks whether one has come. */
     :: refused[p] = true;
        if
#ifndef FORGETFUL
        :: atomic { went[p] -> decided[p] = SMC }
        :: atomic { !went[p] -> decided[p] = TCP }
#else
        :: decided[p] = TCP
#endif
        fi; break
     od
  :: atomic { !named -> decided[p] = TCP }
  /* The mark is taken off S, and the client gives up by itself. */
  :: decided[p] = TCP
  fi;
#ifdef EAGER
  if
  :: atomic { user == 255 -> user = p }
  :: atomic { user != 255 -> goto over }
  fi;
uses:
#endif
  (sent > 0);
  assert(client != UNDECIDED);
  assert((client == SMC) == (peer != 255));
  assert(client == decided[p] && (client == TCP || peer == p));
  got++;
  assert(got == 1);
over:
  skip
}

proctype Stranger() {
end:
  (accepted);
  if
  :: atomic { named -> called[2] = true };
     (hungUp[2] || went[2]);
     assert(!went[2])
  :: !named
  fi
}

init { atomic { decided[0] = UNDECIDED; decided[1] = UNDECIDED;
  run Client(); run Holder(0); run Holder(1); run Stranger() } }
