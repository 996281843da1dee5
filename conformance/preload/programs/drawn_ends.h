/* The ends of drawn.c: what is drawn, what is expected, and what an end knows of a connection. */
#include <ctype.h>
#include <stddef.h>
#include <sys/un.h>

#define CONNECTIONS 2
/* Descriptors of a connection at a time. */
#define DESCRIPTORS 3
/* A line of the transcript, and room for a text that becomes one: the most that one step describes. */
#define LINE 480
#define TEXT 2048

/* One end of a connection. */
struct end {
    int number;
    bool is_server;
    /* Its descriptors; -1 for those that are closed. */
    int fd[DESCRIPTORS];
    int open;
    /* Bytes written, bytes read, and bytes that the peer has read. */
    unsigned long sent, received, peer_received;
    /* An urgent byte was written, before which the peer has not read everything. */
    bool is_urgent;
    /* Directions that were shut, as bits: reading and writing; and those of the peer. */
    int shut, peer_shut;
    int peer_port, own_port;
};

/* A step, of which both ends have drawn the same. */
struct step {
    int number;
    bool by_server;
    int connection;
    unsigned call;
    /* The sets of epoll that an end asks in this step. */
    unsigned server_sets, client_sets;
    /* Arguments, as the call understands them. */
    unsigned a, b, c, d;
};

/* --- what is drawn */

static uint64_t drawing;

/* The next number of the seed: splitmix64, which is in the public domain. */
static unsigned next(void)
{
    uint64_t mixed = drawing += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return (mixed ^ mixed >> 31) >> 33;
}

static struct step draw(int number)
{
    struct step of = {.number = number};
    of.by_server = next() % 2;
    of.connection = next() % 4 == 0;
    of.call = next();
    unsigned sets = next();
    /* Mostly both sets; sometimes one or none, so that events of several steps come together. */
    of.server_sets = sets % 4 ? 3 : sets / 4 % 3;
    of.client_sets = sets / 16 % 4 ? 3 : sets / 64 % 3;
    of.a = next();
    of.b = next();
    of.c = next();
    of.d = next();
    return of;
}

/* --- what is expected */

static FILE *expected;
static char expected_line[LINE + 32];
static bool has_line;

/* Whether this end has a transcript to compare with. */
static bool expects_lines(void)
{
    return expected != NULL;
}

/* Whether this is the next line of the expected transcript. */
static bool expects(const char *line)
{
    if (!has_line) {
        if (fgets(expected_line, sizeof expected_line, expected) == NULL)
            expected_line[0] = 0;
        expected_line[strcspn(expected_line, "\n")] = 0;
        has_line = true;
    }
    return strncmp(line, expected_line, LINE - 1) == 0;
}

/* A line of the transcript. The end is over if it is not the expected one. */
__attribute__((format(printf, 1, 2))) static void report(const char *format, ...)
{
    char line[LINE];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    say("%s", line);
    if (expects_lines() && !expects(line))
        exit(0);
    has_line = false;
}

static volatile sig_atomic_t pipes;

static void count_pipe(int signal)
{
    pipes++;
}

/* Reads the seed and the expected transcript. */
static void begin(void)
{
    const char *seed = getenv("DRAWN_SEED"), *file = getenv("DRAWN_EXPECTED");
    drawing = seed ? strtoull(seed, NULL, 10) * 0x632be59bd9b4e019 : 0;
    if (file != NULL && (expected = fopen(file, "re")) == NULL)
        must("fopen", -1);
    signal(SIGPIPE, count_pipe);
}

/* --- the ends */

/* Calls that would block end after this time: a tenth of a second. No step waits for ever. */
static const struct timeval patience = {.tv_usec = 100000};

static void make_end(struct end *end, int number, int fd, bool is_server)
{
    *end = (struct end){.number = number, .is_server = is_server, .fd = {fd, -1, -1}, .open = 1};
    int one = 1;
    /* Without it, TCP delays a small write behind another one until that is acknowledged. */
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    MUST(getpeername(fd, (struct sockaddr *)&address, &length));
    end->peer_port = address.sin_port;
    length = sizeof address;
    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    end->own_port = address.sin_port;
}

/* One of its descriptors: its place. */
static int chosen(const struct end *end, unsigned drawn)
{
    int place = drawn % DESCRIPTORS;
    while (end->fd[place] < 0)
        place = (place + 1) % DESCRIPTORS;
    return place;
}

/* The byte at a position of the stream. The last byte of an urgent write is in upper case. */
static char letter(unsigned long at)
{
    return 'a' + (at + at / 26 + at / 676) % 26;
}

/* Bytes that the next write takes. */
static void compose(const struct end *end, char *bytes, size_t length)
{
    for (size_t at = 0; at < length; at++)
        bytes[at] = letter(end->sent + at);
}

/* Bytes as text: all of few ones, of more the first and the last ones and a sum of all. */
static const char *shown(const char *bytes, long length)
{
    static char text[64];
    if (length <= 0)
        return "";
    if (length <= 24) {
        snprintf(text, sizeof text, " %.*s", (int)length, bytes);
        return text;
    }
    unsigned sum = 0;
    for (long at = 0; at < length; at++)
        sum = sum * 31 + (unsigned char)bytes[at];
    snprintf(text, sizeof text, " %.6s..%.6s %08x", bytes, bytes + length - 6, sum);
    return text;
}

/* The outcome of a call as text. */
static const char *value(long of)
{
    static char text[32];
    if (of < 0)
        snprintf(text, sizeof text, "%s", strerrorname_np(errno));
    else
        snprintf(text, sizeof text, "%ld", of);
    return text;
}

/* A length: mostly small. */
static size_t length_of(unsigned drawn)
{
    switch (drawn % 16) {
    case 0:
        return 0;
    case 1:
        return 1 + drawn / 16 % 4000;
    case 2:
    case 3:
        return 1 + drawn / 16 % 200;
    default:
        return 1 + drawn / 16 % 16;
    }
}
