/* What is an event, and what is a new one: names of events, edges, exclusive waits. */
#include "case.h"
#include "events.h"
#include "orders.h"

/* Both names of an event, each by itself. */
static void bands_server(int listener)
{
    begin_orders(listener);
    struct pollfd one = {.fd = ordered, .events = POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND};
    outcome("poll", poll(&one, 1, 0));
    say("%s", names(one.revents));
    order('a', POLLIN);
    one.events = POLLRDNORM;
    outcome("poll", poll(&one, 1, LIMIT * 1000));
    say("%s", names(one.revents));
    int set = MUST(epoll_create1(0));
    control(set, EPOLL_CTL_ADD, ordered, EPOLLRDNORM | EPOLLIN, 1);
    ready_now("epoll", set);
    control(set, EPOLL_CTL_MOD, ordered, EPOLLWRNORM, 2);
    ready_now("epoll", set);
    MUST(close(set));
    end_orders();
}

static void exclusive_server(int listener)
{
    begin_orders(listener);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLEXCLUSIVE};
    outcome("ADD beside RDHUP", epoll_ctl(set, EPOLL_CTL_ADD, ordered, &event));
    event.events = EPOLLIN | EPOLLONESHOT | EPOLLEXCLUSIVE;
    outcome("ADD beside ONESHOT", epoll_ctl(set, EPOLL_CTL_ADD, ordered, &event));
    event.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE;
    outcome("MOD of nothing", epoll_ctl(set, EPOLL_CTL_MOD, ordered, &event));
    outcome("ADD", epoll_ctl(set, EPOLL_CTL_ADD, ordered, &event));
    outcome("MOD", epoll_ctl(set, EPOLL_CTL_MOD, ordered, &event));
    event.events = EPOLLIN;
    outcome("MOD without it", epoll_ctl(set, EPOLL_CTL_MOD, ordered, &event));
    ready_now("added", set);
    order('a', POLLIN);
    ready_now("a byte", set);
    outcome("DEL", epoll_ctl(set, EPOLL_CTL_DEL, ordered, NULL));
    outcome("ADD without it", epoll_ctl(set, EPOLL_CTL_ADD, ordered, &event));
    outcome("MOD", epoll_ctl(set, EPOLL_CTL_MOD, ordered, &event));
    ready_now("a byte", set);
    MUST(close(set));
    end_orders();
}

/* A new edge only for those that asked for what happened: a byte is none for a registration that
 * waits for room; the end is one for all. */
static void keyed_server(int listener)
{
    begin_orders(listener);
    char bytes[8];
    int in = MUST(epoll_create1(0)), out = MUST(epoll_create1(0)), both = MUST(epoll_create1(0));
    control(in, EPOLL_CTL_ADD, ordered, EPOLLIN | EPOLLET, 1);
    control(out, EPOLL_CTL_ADD, ordered, EPOLLOUT | EPOLLET, 2);
    control(both, EPOLL_CTL_ADD, ordered, EPOLLIN | EPOLLOUT | EPOLLET, 3);
    int sets[] = {in, out, both};
    const char *steps[] = {"added", "a byte", "another byte", "read", "this side's end", "the end",
        "shut again"};
    for (int step = 0; step < 7; step++) {
        if (step == 1 || step == 2) {
            order('a', POLLIN);
            await_unread(step);
        }
        if (step == 3)
            MUST(read(ordered, bytes, 1));
        if (step == 4)
            MUST(shutdown(ordered, SHUT_WR));
        if (step == 5)
            order('e', POLLIN | POLLRDHUP | POLLHUP);
        if (step == 6)
            outcome("shutdown", shutdown(ordered, SHUT_RD));
        for (int at = 0; at < 3; at++) {
            ready_now(steps[step], sets[at]);
            ready_now("again", sets[at]);
        }
    }
    for (int at = 0; at < 3; at++)
        MUST(close(sets[at]));
    end_orders();
}

/* Bytes below the low-water mark are no edge, whatever else is asked for. */
static void below_low_water_server(int listener)
{
    begin_orders(listener);
    int mark = 3, set = MUST(epoll_create1(0));
    MUST(setsockopt(ordered, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    control(set, EPOLL_CTL_ADD, ordered, EPOLLIN | EPOLLOUT | EPOLLET, 1);
    ready_now("added", set);
    order('a', 0);
    int waiting = 0;
    while (waiting < 1)
        MUST(ioctl(ordered, FIONREAD, &waiting));
    ready_now("one byte", set);
    order('a', 0);
    order('a', POLLIN);
    ready_now("three bytes", set);
    MUST(close(set));
    end_orders();
}

/* The end of the peer is an edge after this side has ended reading, and so is a low-water mark that
 * is reached; a duplicate of the descriptor that is added, and what follows a reset, is none. */
static void late_edges_server(int listener)
{
    begin_orders(listener);
    char bytes[8];
    int set = MUST(epoll_create1(0)), mark = 1;
    control(set, EPOLL_CTL_ADD, ordered, EPOLLIN | EPOLLOUT | EPOLLET, 1);
    ready_now("added", set);
    MUST(shutdown(ordered, SHUT_RD));
    ready_now("reading is shut", set);
    order('a', POLLIN);
    await_unread(1);
    ready_now("a byte", set);
    MUST(setsockopt(ordered, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    ready_now("a low-water mark that is reached", set);
    mark = 2;
    MUST(setsockopt(ordered, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    ready_now("one that is not", set);
    int copy = MUST(dup(ordered));
    control(set, EPOLL_CTL_ADD, copy, EPOLLET, 2);
    ready_now("a duplicate", set);
    order('a', POLLIN);
    await_unread(2);
    ready_now("another byte", set);
    order('r', POLLHUP | POLLERR);
    ready_now("reset", set);
    ready_now("reset, the duplicate", set);
    outcome("read", read(ordered, bytes, 2));
    ready_now("everything is read", set);
    outcome("read", read(ordered, bytes, 2));
    ready_now("the error is read", set);
    MUST(close(copy));
    MUST(close(set));
    end_orders();
}

/* Both have ended: what is left of the connection is no edge any more. */
static void ended_edges_server(int listener)
{
    begin_orders(listener);
    int set = MUST(epoll_create1(0));
    control(set, EPOLL_CTL_ADD, ordered, EPOLLIN | EPOLLET, 1);
    order('e', POLLIN | POLLRDHUP);
    MUST(shutdown(ordered, SHUT_WR));
    await(ordered, POLLHUP);
    ready_now("both have ended", set);
    order('r', POLLHUP);
    /* Its reset is on its way: HUP was there before. */
    usleep(50000);
    struct pollfd one = {.fd = ordered, .events = POLLIN};
    outcome("poll", poll(&one, 1, 0));
    say("%s", names(one.revents));
    ready_now("the peer has gone", set);
    MUST(close(set));
    end_orders();
}

const struct test_case cases[] = {
    {"bands", bands_server, obedient_client},
    {"exclusive", exclusive_server, obedient_client},
    {"keyed", keyed_server, obedient_client},
    {"late-edges", late_edges_server, obedient_client},
    {"ended-edges", ended_edges_server, obedient_client},
    {"below-low-water", below_low_water_server, obedient_client},
    {NULL, NULL, NULL},
};
