/* Streams of the C library, and what it prints. */
#include "scenario.h"

void stdio_client(int listener)
{
	int fd = connected();
	FILE *stream = fdopen(fd, "r+");
	char answer[7] = {0};
	CHECK(stream && fileno(stream) == fd);
	CHECK(fprintf(stream, "quest%s", "ion") == 8 && fflush(stream) == 0);
	CHECK(fread(answer, 6, 1, stream) == 1 && strcmp(answer, "answer") == 0);
	CHECK(fclose(stream) == 0);
}

/* The first bytes that either side sends are printed. */
void printed_server(int listener)
{
	int fd = accepted(listener);
	CHECK(dprintf(fd, "%d %s %.2f %d %d %d %d", 1, "two", 3.5, 4, 5, 6, 7) == 18);
	expect(fd, "answer");
	expect_end(fd);
}

void printed_client(int listener)
{
	int fd = connected();
	expect(fd, "1 two 3.50 4 5 6 7");
	CHECK(dprintf(fd, "ans%s", "wer") == 6);
}
