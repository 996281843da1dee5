/* Streams of the C library over a connection, as ftp clients and old servers use them. The
 * library's own functions call the kernel by names that no other library can take. */
#include "case.h"

/* A server of lines: answers each with its length, until "quit". */
static void lines_server(int listener)
{
    int fd = take(listener);
    FILE *in = fdopen(fd, "r"), *out = fdopen(MUST(dup(fd)), "w");
    if (in == NULL || out == NULL) {
        say("no stream");
        exit(1);
    }
    say("the number is the descriptor's: %d", fileno(in) == fd);
    setvbuf(out, NULL, _IOLBF, 0);
    fprintf(out, "220 ready\r\n");
    char line[256];
    while (fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\r\n")] = 0;
        say("%s", line);
        if (strcmp(line, "quit") == 0)
            break;
        fprintf(out, "200 %zu\r\n", strlen(line));
    }
    fprintf(out, "221 bye\r\n");
    say("fclose = %d", fclose(out));
    say("fclose = %d", fclose(in));
}

static void lines_client(int port)
{
    int fd = dial(port);
    FILE *both = fdopen(fd, "r+");
    char line[64];
    setvbuf(both, NULL, _IONBF, 0);
    say("%s", strtok(fgets(line, sizeof line, both), "\r"));
    for (int length = 1; length < 200; length += 60) {
        fprintf(both, "%.*s\n", length,
            "0123456789012345678901234567890123456789012345678901234567890123456789"
            "0123456789012345678901234567890123456789012345678901234567890123456789"
            "0123456789012345678901234567890123456789012345678901234567890123456789");
        say("%s", strtok(fgets(line, sizeof line, both), "\r"));
    }
    fputs("quit\n", both);
    say("%s", strtok(fgets(line, sizeof line, both), "\r"));
    say("the end: %d", fgets(line, sizeof line, both) == NULL && feof(both));
    say("fclose = %d", fclose(both));
    say("closed: %d", fcntl(fd, F_GETFD) == -1);
}

/* Large blocks, through the buffer and past it. */
static void blocks_server(int listener)
{
    int fd = take(listener);
    FILE *in = fdopen(fd, "rb");
    static unsigned char bytes[300000];
    say("fread = %zu", fread(bytes, 1, sizeof bytes, in));
    judge(bytes, 0, sizeof bytes);
    say("getc = %d", getc(in));
    say("feof %d, ferror %d", feof(in), ferror(in));
    say("ungetc = %d", ungetc('u', in));
    say("getc = %d", getc(in));
    say("fseek = %d", fseek(in, 0, SEEK_SET));
    say("fclose = %d", fclose(in));
}

static void blocks_client(int port)
{
    int fd = dial(port);
    FILE *out = fdopen(fd, "wb");
    static unsigned char bytes[300000];
    fill(bytes, 0, sizeof bytes);
    for (size_t at = 0; at < 100; at++)
        putc(bytes[at], out);
    say("fwrite = %zu", fwrite(bytes + 100, 1, sizeof bytes - 100, out));
    say("fflush = %d", fflush(out));
    say("fclose = %d", fclose(out));
}

static void dprintf_server(int listener)
{
    int fd = take(listener);
    say("dprintf = %d", dprintf(fd, "%d and %s\n", 42, "text"));
    expect_end(fd);
}

static void dprintf_client(int port)
{
    int fd = dial(port);
    char text[32] = {0};
    size_t length = read_all(fd, text, 12);
    say("%zu bytes: %s", length, strtok(text, "\n"));
    MUST(close(fd));
}

/* The standard streams become the connection, as in a server that inetd starts. The
 * transcript is written to a copy of what they were. */
static void standard_server(int listener)
{
    int fd = take(listener);
    int old_in = MUST(dup(STDIN_FILENO)), old_out = MUST(dup(STDOUT_FILENO));
    MUST(dup2(fd, STDIN_FILENO));
    MUST(dup2(fd, STDOUT_FILENO));
    MUST(close(fd));
    char line[64] = "";
    printf("name?\n");
    fflush(stdout);
    char *got = fgets(line, sizeof line, stdin);
    printf("hello %s", got);
    puts("bye");
    fflush(stdout);
    MUST(dup2(old_in, STDIN_FILENO));
    MUST(dup2(old_out, STDOUT_FILENO));
    say("%s", strtok(line, "\n"));
}

static void say_text(int fd, size_t length)
{
    char text[64] = {0};
    length = read_all(fd, text, length);
    say("%zu bytes: %s", length, strtok(text, "\n"));
}

static void standard_client(int port)
{
    int fd = dial(port);
    say_text(fd, 6);
    write_all(fd, "world\n", 6);
    say_text(fd, 12);
    say_text(fd, 4);
    expect_end(fd);
}

/* A stream that is opened anew leaves the connection behind. */
static void reopened_server(int listener)
{
    int fd = take(listener);
    FILE *stream = fdopen(fd, "r+");
    fprintf(stream, "before\n");
    fflush(stream);
    stream = freopen("/dev/null", "r", stream);
    say("reopened %d, at its end %d", stream != NULL, fgetc(stream) == EOF);
    say("fclose = %d", fclose(stream));
}

static void reopened_client(int port)
{
    int fd = dial(port);
    FILE *stream = fdopen(fd, "r");
    char *line = NULL;
    size_t room = 0;
    say("getline = %zd", getline(&line, &room, stream));
    say("getline = %zd", getline(&line, &room, stream));
    free(line);
    say("fclose = %d", fclose(stream));
}

/* A mode that the descriptor does not have, and none at all. */
static void wrong_streams_server(int listener)
{
    int fd = take(listener);
    say("no mode: %s", fdopen(fd, "?") ? "a stream" : strerrorname_np(errno));
    say("no descriptor: %s", fdopen(-1, "r") ? "a stream" : strerrorname_np(errno));
    FILE *reader = fdopen(fd, "r");
    say("a reader that writes: %d", fputs("x", reader));
    say("fclose = %d", fclose(reader));
}

static void wrong_streams_client(int port)
{
    expect_end(dial(port));
}

const struct test_case cases[] = {
    {"lines", lines_server, lines_client},
    {"blocks", blocks_server, blocks_client},
    {"dprintf", dprintf_server, dprintf_client},
    {"standard", standard_server, standard_client},
    {"reopened", reopened_server, reopened_client},
    {"wrong-streams", wrong_streams_server, wrong_streams_client},
    {NULL, NULL, NULL},
};
