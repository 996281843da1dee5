/* Connections that are announced over shared memory (docs/shared-memory.md, SHM-065 to 068): one
 * slot pair, used for ROUNDS connections one after another.
 *
 * The connection of a round is accepted by the process that the client announced it to, by
 * another process that knows nothing of SMC, or by no process before the client has given up. A
 * hostile process that has the slot may answer for a connection that it does not hold.
 *
 * Checked: both ends come to the same carrier; every byte of the application arrives once, over
 * the carrier of its reader; TCP carries no byte but the application's; a process that does not
 * hold the other end of the connection never becomes the client's peer; a client whose server is
 * known to speak CLC over TCP sends it after an announcement that was given up exactly if the server
 * expects it; and nothing waits for ever (no invalid end state). The client may give up at any time,
 * which is what a loaded machine does.
 *
 * TRUSTING leaves the question to the kernel out, HASTY uses a slot again at once, BLIND sends CLC
 * over TCP whether or not the announcement was taken: all must fail.
 * FAULTS: TRUSTING HASTY BLIND. */

#define ROUNDS 3

mtype = { NONE, PROPOSAL, ACCEPT, CONFIRM, DECLINE };
mtype = { UNDECIDED, TCP, SMC };
mtype = { NO_PROCESS, SERVER, OTHER };

/* A slot: the number of the handshake, and its newest message. One writer each. */
byte toServer_number; mtype toServer = NONE;
byte toClient_number; mtype toClient = NONE;
byte ended;               /* the last handshake that the server has ended */
byte waiting;            /* the announcement in the index: its round, or 0 */

/* The TCP connection of a round. */
mtype holder[ROUNDS + 1];
mtype client[ROUNDS + 1];
mtype server[ROUNDS + 1];
byte overTcp[ROUNDS + 1];
byte overSmc[ROUNDS + 1];
byte read[ROUNDS + 1];
bool connected[ROUNDS + 1];
bool clcSent[ROUNDS + 1];      /* over TCP, by the client */
bool clcExpected[ROUNDS + 1];  /* over TCP, by the server */
bool finished;

proctype Client() {
  byte round = 1;
  bool taken;
  do
  :: round <= ROUNDS ->
#ifndef HASTY
     /* The server has read everything of the handshake before, or never began it. */
     (round == 1 || ended == round - 1 || holder[round - 1] == OTHER);
#endif
     atomic { toServer_number = round; toServer = PROPOSAL }
     waiting = round;
     connected[round] = true;
     do
     :: atomic { toClient_number == round && toClient == ACCEPT ->
#ifndef TRUSTING
        if
        :: holder[round] != SERVER -> toServer = DECLINE; client[round] = TCP; goto decided
        :: else
        fi;
#endif
        toServer = CONFIRM; client[round] = SMC } break
     :: atomic { toClient_number == round && toClient == DECLINE -> client[round] = TCP } break
     /* No answer that it has read in time. */
     :: atomic { true -> taken = (waiting != round); waiting = 0 }
#ifdef BLIND
        taken = false;
#endif
        clcSent[round] = !taken;
        atomic { toServer = DECLINE; client[round] = TCP } break
     od;
decided:
     waiting = 0;
     if
     :: client[round] == SMC -> assert(holder[round] == SERVER); overSmc[round]++
     :: else -> overTcp[round]++
     fi;
     /* It is accepted at last, by whichever process. */
     (holder[round] != NO_PROCESS);
     round++
  :: else -> break
  od;
  finished = true
}

/* The process that was announced to. It takes what it has accepted, and nothing else. */
proctype Server() {
  byte round = 1;
  do
  :: round <= ROUNDS && connected[round] ->
     if
     :: atomic { holder[round] == NO_PROCESS -> holder[round] = SERVER };
        if
        /* The kernel names the client's socket, and the index has it. */
        :: atomic { waiting == round && toServer_number == round && toServer == PROPOSAL ->
           waiting = 0 }
           if
           :: atomic { toClient_number = round; toClient = ACCEPT }
              if
              :: atomic { toServer_number == round && toServer == CONFIRM -> server[round] = SMC }
              :: atomic { toServer_number == round && toServer == DECLINE -> server[round] = TCP }
              fi
           :: atomic { toClient_number = round; toClient = DECLINE; server[round] = TCP }
           fi
        /* No announcement, or one that was given up: plain, at once. */
        :: atomic { !(waiting == round && toServer_number == round && toServer == PROPOSAL) ->
           server[round] = TCP; clcExpected[round] = true }
        fi;
        ended = round
     :: atomic { holder[round] == OTHER -> server[round] = TCP }
     fi;
     /* The application reads from what carries the connection. */
     if
     :: server[round] == SMC -> (overSmc[round] > 0); read[round]++
     :: else -> (overTcp[round] > 0); read[round]++
     fi;
     assert(client[round] == server[round]);
     assert(holder[round] != SERVER || clcSent[round] == clcExpected[round]);
     assert(read[round] == 1 && overTcp[round] + overSmc[round] == 1);
     round++
  :: round > ROUNDS -> break
  od
}

/* Another process that shares the listener, or has taken it over. */
proctype Other() {
  byte round = 1;
end:
  do
  :: round <= ROUNDS && connected[round] ->
     if
     :: atomic { holder[round] == NO_PROCESS -> holder[round] = OTHER }
     :: true
     fi;
     round++
  :: finished -> break
  od
}

/* A hostile process answers for a connection that another one holds. */
proctype Hostile() {
  byte round;
end:
  do
  :: atomic { waiting != 0 && holder[waiting] == OTHER ->
     round = waiting; toClient_number = round; toClient = ACCEPT }
  :: finished -> break
  od
}

init { atomic { byte i; for (i : 0 .. ROUNDS) {
  holder[i] = NO_PROCESS; client[i] = UNDECIDED; server[i] = UNDECIDED };
  run Client(); run Server(); run Other(); run Hostile() } }
