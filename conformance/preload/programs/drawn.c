/* Calls that are drawn from a seed, by two ends in lockstep.
 *
 * Both ends draw the same steps. In each, one end acts: it makes one call on one of the
 * connections, and says what came of it. Then both ends say how they see their connections. They
 * keep in step over a Unix socket, which the library leaves alone, so that a transcript depends on
 * nothing but the seed, and TCP is the judge of what it has to be.
 *
 *   DRAWN_SEED      the seed
 *   DRAWN_STEPS     how many steps there are
 *   DRAWN_EXPECTED  a file with the transcript of this role over TCP
 *
 * An effect may take a moment to reach the other end. Without an expected transcript an end waits
 * until what it sees no longer changes; with one, until it sees what is expected, for a bounded
 * time. An end whose transcript differs ends at the line that does. */
#include "case.h"
#include "events.h"
#include "drawn_ends.h"
#include "drawn_calls.h"
#include "drawn_readiness.h"
#include "drawn_options.h"

static const struct {
    unsigned weight;
    void (*call)(struct end *, const struct step *);
} calls[] = {
    {14, call_write}, {14, call_send}, {6, call_write_parts}, {5, call_send_urgent},
    {3, call_sendfile}, {12, call_read}, {16, call_recv}, {8, call_read_parts},
    {6, call_recv_urgent}, {1, call_preadv}, {4, call_shutdown}, {2, call_close},
    {2, call_reset}, {3, call_duplicate}, {3, call_nonblocking}, {4, call_set_option},
    {5, call_get_option}, {3, call_names}, {4, call_poll}, {3, call_select},
    {12, call_epoll_control},
};

static void act(struct end *ends, const struct step *of)
{
    struct end *end = &ends[of->connection];
    unsigned all = 0, drawn;
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++)
        all += calls[at].weight;
    drawn = of->call % all;
    for (size_t at = 0;; at++) {
        if (drawn < calls[at].weight) {
            if (end->open == 0)
                report("%d: closed already", of->number);
            else
                calls[at].call(end, of);
            return;
        }
        drawn -= calls[at].weight;
    }
}

/* Whether the end of a connection is on its way still. Its acknowledgement, which TCP delays by up to
 * 40 ms, is an edge for epoll. */
static bool is_ending(const struct end *ends)
{
    for (int at = 0; at < CONNECTIONS; at++) {
        unsigned char state = 0;
        socklen_t length = 1;
        if (ends[at].open == 0)
            continue;
        int fd = ends[at].fd[chosen(&ends[at], 0)];
        MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &length));
        if (state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK || state == TCP_CLOSING)
            return true;
    }
    return false;
}

/* Says how the connections are once they are as expected, or no longer change. */
static void say_state(struct end *ends, const struct step *of)
{
    char text[TEXT], before[TEXT] = "";
    int alike = 0;
    for (int look = 0; look < LOOKS; look++) {
        describe(ends, of, text);
        if (expects_lines() ? expects(text) : alike == ALIKE)
            break;
        alike = strcmp(text, before) == 0 && !is_ending(ends) ? alike + 1 : 0;
        strcpy(before, text);
        moment();
    }
    report("%s", text);
}

/* What an end sends to the other one between two parts of a step. */
struct message {
    unsigned long received[CONNECTIONS];
    bool has_unread[CONNECTIONS];
    int shut[CONNECTIONS];
};

static void send_to_peer(int link, struct end *ends)
{
    struct message message = {{0}};
    for (int at = 0; at < CONNECTIONS; at++) {
        message.received[at] = ends[at].received;
        message.has_unread[at] = ends[at].open && unread(ends[at].fd[chosen(&ends[at], 0)]) > 0;
        message.shut[at] = ends[at].open ? ends[at].shut : 0;
    }
    if (send(link, &message, sizeof message, MSG_NOSIGNAL) != sizeof message)
        exit(0);
}

static void receive_from_peer(int link, struct end *ends)
{
    struct message message;
    if (recv(link, &message, sizeof message, 0) != sizeof message)
        exit(0);
    for (int at = 0; at < CONNECTIONS; at++) {
        ends[at].peer_received = message.received[at];
        ends[at].is_urgent &= message.has_unread[at];
        ends[at].peer_shut = message.shut[at];
    }
}

static void run(int link, struct end *ends, bool is_server)
{
    const char *steps = getenv("DRAWN_STEPS");
    int count = steps ? atoi(steps) : 40;
    begin_sets();
    for (int number = 0; number < count; number++) {
        struct step step = draw(number);
        if (step.by_server == is_server) {
            act(ends, &step);
            send_to_peer(link, ends);
        } else {
            receive_from_peer(link, ends);
        }
        say_state(ends, &step);
        say_events(&step, is_server ? step.server_sets : step.client_sets);
        send_to_peer(link, ends);
        receive_from_peer(link, ends);
    }
}

static struct sockaddr_un link_address(int port, socklen_t *length)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int name = snprintf(address.sun_path + 1, 64, "smc-drawn-%d", port);
    *length = offsetof(struct sockaddr_un, sun_path) + 1 + name;
    return address;
}

static int port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return ntohs(address.sin_port);
}

static void drawn_server(int listener)
{
    begin();
    socklen_t length;
    struct sockaddr_un address = link_address(port_of(listener), &length);
    int meeting = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    MUST(bind(meeting, (struct sockaddr *)&address, length));
    MUST(listen(meeting, 1));
    int link = MUST(accept(meeting, NULL, NULL));
    MUST(close(meeting));
    struct end ends[CONNECTIONS] = {{0}};
    for (int at = 0; at < CONNECTIONS; at++)
        make_end(&ends[at], at, welcome(listener), true);
    for (int at = 0; at < CONNECTIONS; at++)
        signal_peer(ends[at].fd[0]);
    run(link, ends, true);
}

static void drawn_client(int port)
{
    begin();
    socklen_t length;
    struct sockaddr_un address = link_address(port, &length);
    int link = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    while (connect(link, (struct sockaddr *)&address, length) < 0)
        moment();
    struct end ends[CONNECTIONS] = {{0}};
    for (int at = 0; at < CONNECTIONS; at++)
        make_end(&ends[at], at, greet(port), false);
    for (int at = 0; at < CONNECTIONS; at++)
        await_peer(ends[at].fd[0]);
    run(link, ends, false);
}

const struct test_case cases[] = {
    {"drawn", drawn_server, drawn_client},
    {NULL, NULL, NULL},
};
