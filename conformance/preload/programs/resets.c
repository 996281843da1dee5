/* Connections that were reset, or whose peer is gone: errors, each once, what can still be read, and
 * what is reported. */
#include "case.h"
#include "events.h"
#include "orders.h"

static void say_error(void)
{
    int error = -1;
    socklen_t length = sizeof error;
    MUST(getsockopt(ordered, SOL_SOCKET, SO_ERROR, &error, &length));
    say("SO_ERROR %s", error == 0 ? "none" : strerrorname_np(error));
}

static void say_events(const char *what)
{
    struct pollfd one = {.fd = ordered, .events = POLLIN | POLLOUT | POLLRDHUP};
    MUST(poll(&one, 1, 0));
    say("%s: %s", what, names(one.revents));
}

static void say_state(const char *what)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    unsigned char state = 0;
    say_events(what);
    succeeds("getpeername", getpeername(ordered, (struct sockaddr *)&address, &length));
    length = 1;
    MUST(getsockopt(ordered, IPPROTO_TCP, TCP_INFO, &state, &length));
    say("state %d", state);
}

/* The error by reading, behind what came before. */
static void by_reading_server(int listener)
{
    begin_orders(listener);
    char bytes[8] = {0};
    order('a', POLLIN);
    order('b', POLLIN);
    order('r', POLLIN | POLLERR | POLLHUP | POLLRDHUP);
    say_state("reset");
    outcome("shutdown", shutdown(ordered, SHUT_WR));
    outcome("read", read(ordered, bytes, 1));
    outcome("recv that waits for more", recv(ordered, bytes, 8, MSG_WAITALL));
    say_state("everything is read");
    outcome("recv", recv(ordered, bytes, 8, MSG_DONTWAIT));
    say_state("the error is read");
    outcome("recv", recv(ordered, bytes, 8, MSG_DONTWAIT));
    outcome("send", send(ordered, bytes, 8, MSG_NOSIGNAL));
    say_error();
    end_orders();
}

/* The error by writing, while there is something to be read. */
static void by_writing_server(int listener)
{
    begin_orders(listener);
    char bytes[8] = {0};
    order('a', POLLIN);
    order('r', POLLIN | POLLERR | POLLHUP | POLLRDHUP);
    outcome("send", send(ordered, bytes, 8, MSG_NOSIGNAL));
    say_state("the error is known");
    outcome("send", send(ordered, bytes, 8, MSG_NOSIGNAL));
    say_error();
    outcome("read", read(ordered, bytes, 8));
    outcome("read", read(ordered, bytes, 8));
    end_orders();
}

/* A reset behind the end of the stream. */
static void behind_the_end_server(int listener)
{
    begin_orders(listener);
    char bytes[8] = {0};
    order('e', POLLIN | POLLRDHUP);
    say_state("the end");
    order('r', POLLERR | POLLHUP);
    say_state("reset");
    outcome("read", read(ordered, bytes, 8));
    say_error();
    say_error();
    say_state("the error is known");
    outcome("send", send(ordered, bytes, 8, MSG_NOSIGNAL));
    end_orders();
}

/* The peer has closed, and gets something. */
static void written_to_server(int listener)
{
    begin_orders(listener);
    char bytes[8] = {0};
    order('a', POLLIN);
    order('c', POLLIN | POLLRDHUP);
    outcome("send of nothing", send(ordered, bytes, 0, MSG_NOSIGNAL));
    say_state("closed by the peer");
    outcome("send", send(ordered, bytes, 8, MSG_NOSIGNAL));
    await(ordered, POLLERR | POLLHUP);
    say_state("answered by a reset");
    outcome("shutdown", shutdown(ordered, SHUT_WR));
    say_error();
    outcome("read", read(ordered, bytes, 8));
    outcome("read", read(ordered, bytes, 8));
    outcome("send", send(ordered, bytes, 8, MSG_NOSIGNAL));
    end_orders();
}

/* The peer has closed, and gets what waits for more, again and again: it does not wait for ever. */
static void held_server(int listener)
{
    begin_orders(listener);
    order('c', POLLIN | POLLRDHUP);
    int written = 0;
    while (written < 100 && send(ordered, "some", 4, MSG_MORE | MSG_NOSIGNAL) == 4) {
        written++;
        usleep(70000);
    }
    say("ends: %s", written < 100 ? strerrorname_np(errno) : "never");
    say_state("answered by a reset");
    end_orders();
}

/* The process of the peer was killed: the kernel ends its connections in order. */
static void killed_server(int listener)
{
    pid_t child = branch();
    if (child == 0) {
        ordered = welcome(listener);
        signal_peer(ordered);
        await_peer(ordered);
        kill(getpid(), SIGKILL);
    }
    MUST(waitpid(child, NULL, 0));
    say("killed");
}

static void killed_client(int port)
{
    char bytes[8] = {0};
    signal(SIGPIPE, SIG_IGN);
    ordered = greet(port);
    await_peer(ordered);
    signal_peer(ordered);
    MUST(await(ordered, POLLRDHUP));
    say_events("killed");
    outcome("recv of an urgent byte", recv(ordered, bytes, 8, MSG_OOB));
    say_error();
    outcome("read", read(ordered, bytes, 8));
    outcome("shutdown", shutdown(ordered, SHUT_WR));
    say_events("both have ended");
    outcome("shutdown again", shutdown(ordered, SHUT_WR));
    MUST(close(ordered));
}

/* Both have ended in order. */
static void both_ended_server(int listener)
{
    begin_orders(listener);
    char bytes[8] = {0};
    order('a', POLLIN);
    MUST(shutdown(ordered, SHUT_WR));
    order('x', 0);
    order('c', POLLHUP | POLLRDHUP);
    say_state("both have ended");
    outcome("shutdown", shutdown(ordered, SHUT_RDWR));
    outcome("read", read(ordered, bytes, 8));
    outcome("read", read(ordered, bytes, 8));
    say_error();
    end_orders();
}

/* A peer that goes when both have ended resets nothing. */
static void reset_when_both_ended_server(int listener)
{
    begin_orders(listener);
    order('e', POLLIN | POLLRDHUP);
    MUST(shutdown(ordered, SHUT_WR));
    order('x', POLLHUP);
    order('r', POLLHUP);
    /* Its reset is on its way: HUP was there before. */
    usleep(50000);
    say_state("reset by the peer");
    say_error();
    end_orders();
}

/* A connection that is closed with an urgent byte in it, also one that was received. */
static void unread_urgent_server(int listener)
{
    begin_orders(listener);
    char byte;
    order('U', POLLPRI);
    outcome("recv of the urgent byte", recv(ordered, &byte, 1, MSG_OOB));
    MUST(close(ordered));
    MUST(write(orders, "x", 1));
    await_peer(orders);
    MUST(close(orders));
}

const struct test_case cases[] = {
    {"by-reading", by_reading_server, obedient_client},
    {"by-writing", by_writing_server, obedient_client},
    {"behind-the-end", behind_the_end_server, obedient_client},
    {"written-to", written_to_server, obedient_client},
    {"held", held_server, obedient_client},
    {"killed", killed_server, killed_client},
    {"both-ended", both_ended_server, obedient_client},
    {"reset-when-both-ended", reset_when_both_ended_server, obedient_client},
    {"unread-urgent", unread_urgent_server, obedient_client},
    {NULL, NULL, NULL},
};
