/* Calls of drawn.c about readiness, and what an end sees of its connections. */
#include <sys/select.h>

#define SETS 2
/* Places of the events of a set: one for each descriptor of each connection. */
#define PLACES (CONNECTIONS * DESCRIPTORS)
#define ALL (POLLIN | POLLPRI | POLLOUT | POLLRDHUP | POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND)

/* Nanoseconds between two looks at a connection. */
#define PAUSE 500000
/* Looks until an end says what it sees although that is not what is expected: 250 ms. */
#define LOOKS 500
/* Looks of an end that expects nothing which have to see the same. */
#define ALIKE 3

static int sets[SETS];
/* Registrations that report edges only. */
static bool by_edges[SETS][PLACES];

static void begin_sets(void)
{
    for (int at = 0; at < SETS; at++)
        sets[at] = MUST(epoll_create1(EPOLL_CLOEXEC));
}

static void moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
}

/* --- poll and select */

static void call_poll(struct end *end, const struct step *of)
{
    struct pollfd some[2] = {{end->fd[chosen(end, of->b)], of->a & ALL, 0},
        {end->fd[chosen(end, of->d)], of->c & ALL, 0}};
    struct timespec none = {0};
    int count = 1 + of->c % 2;
    int done = of->b % 2 ? poll(some, count, 0) : ppoll(some, count, &none, NULL);
    char first[128];
    strcpy(first, names(some[0].revents));
    report("%d c%d poll(%x %x) = %s: %s, %s", of->number, end->number, some[0].events,
        some[1].events, value(done), first, names(some[1].revents));
}

static void call_select(struct end *end, const struct step *of)
{
    fd_set in, out, other;
    int fd = end->fd[chosen(end, of->b)];
    FD_ZERO(&in); FD_ZERO(&out); FD_ZERO(&other);
    FD_SET(fd, &in); FD_SET(fd, &out); FD_SET(fd, &other);
    fd_set *first = of->a % 4 ? &in : NULL, *third = of->a / 4 % 4 ? &other : NULL;
    fd_set *second = of->a / 16 % 2 ? &out : NULL;
    struct timeval none = {0};
    struct timespec nothing = {0};
    int done = of->c % 2 ? select(fd + 1, first, second, third, &none)
                         : pselect(fd + 1, first, second, third, &nothing, NULL);
    report("%d c%d select(%d%d%d) = %s: %d%d%d", of->number, end->number, !!first, !!second, !!third,
        value(done), first && FD_ISSET(fd, first), second && FD_ISSET(fd, second),
        third && FD_ISSET(fd, third));
}

/* --- epoll */

static void call_epoll_control(struct end *end, const struct step *of)
{
    static const unsigned asked[] = {EPOLLIN, EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLOUT,
        EPOLLIN | EPOLLRDHUP, EPOLLRDHUP, EPOLLPRI, EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP, 0,
        EPOLLRDNORM | EPOLLWRNORM};
    static const unsigned kinds[] = {0, EPOLLET, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT,
        EPOLLEXCLUSIVE, EPOLLEXCLUSIVE | EPOLLET};
    static const int operations[] = {EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
    int place = chosen(end, of->b), set = of->d % SETS, operation = operations[of->d / 2 % 4];
    struct epoll_event event = {.events = asked[of->a % 10] | kinds[of->c % 7],
        .data.u64 = end->number * DESCRIPTORS + place};
    int done = epoll_ctl(sets[set], operation, end->fd[place], &event);
    if (done == 0 && operation != EPOLL_CTL_DEL)
        by_edges[set][event.data.u64] = event.events & EPOLLET;
    report("%d c%d epoll_ctl(set %d, %d, place %d, %x) = %s", of->number, end->number, set, operation,
        place, event.events, value(done));
}

/* Events that the sets reported in one step. */
struct gathered {
    unsigned which, events[SETS][PLACES];
};

/* Asks the sets once more. */
static void gather(struct gathered *into, unsigned which)
{
    into->which = which;
    for (int set = 0; set < SETS; set++) {
        struct epoll_event some[PLACES];
        if (!(which & 1 << set))
            continue;
        int count = MUST(epoll_wait(sets[set], some, PLACES, 0));
        for (int at = 0; at < count; at++)
            into->events[set][some[at].data.u64 % PLACES] |= some[at].events;
    }
}

static void describe_events(const struct gathered *of, const struct step *step, char *text)
{
    int length = snprintf(text, TEXT, "%d events:", step->number);
    for (int set = 0; set < SETS; set++)
        for (int place = 0; place < PLACES; place++)
            if (of->events[set][place])
                length += snprintf(text + length, TEXT - length, " set %d place %d %s", set, place,
                    names(of->events[set][place]));
}

/* Says which events by edges those sets report once more. */
static void say_again(const struct step *of, unsigned which)
{
    struct gathered again = {0};
    gather(&again, which);
    for (int set = 0; set < SETS; set++)
        for (int place = 0; place < PLACES; place++)
            if (again.events[set][place] && by_edges[set][place])
                report("%d again: set %d place %d %s", of->number, set, place,
                    names(again.events[set][place]));
}

/* Says what those sets report, which are drawn: events stay in them for several steps. */
static void say_events(const struct step *of, unsigned which)
{
    if (which == 0)
        return;
    char text[TEXT];
    struct gathered events = {0};
    for (int look = 0; look < LOOKS; look++) {
        gather(&events, which);
        describe_events(&events, of, text);
        if (!expects_lines() || expects(text))
            break;
        moment();
    }
    report("%s", text);
    say_again(of, which);
}

/* Describes what an end sees of its connections without changing them. */
static void describe(const struct end *ends, const struct step *step, char *text)
{
    int length = snprintf(text, TEXT, "%d sees:", step->number);
    for (int at = 0; at < CONNECTIONS; at++) {
        if (ends[at].open == 0)
            continue;
        int fd = ends[at].fd[chosen(&ends[at], 0)], mark = -1;
        int marked = ioctl(fd, SIOCATMARK, &mark);
        length += snprintf(text + length, TEXT - length, " c%d %s%d unread, mark %d%s;", at,
            names(polled(fd, ALL)), unread(fd), mark, marked < 0 ? " failed" : "");
    }
}
