/*
 * Sends bytes over a TCP connection and ends at once, or receives them.
 *
 *   exits send WAY connect ADDRESS PORT     exits receive connect ADDRESS PORT
 *   exits send WAY listen PORT              exits receive listen PORT
 *
 * WAY is how the process ends after its last write: return, _exit, or close (and then it returns). A
 * listening process prints "listening"; one that receives prints what came before the end of the stream,
 * which it begins to read late, and fails if that is not what was sent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LENGTH 1000000

static unsigned char sent(size_t at)
{
	return (unsigned char)(at * 2654435761u >> 13);
}

static int fail(const char *call)
{
	perror(call);
	exit(1);
}

static int connected(int connects, const char *address, const char *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1, accepted;

	if (fd < 0)
		fail("socket");
	if (connects) {
		if (inet_pton(AF_INET, address, &at.sin_addr) != 1)
			fail("inet_pton");
		if (connect(fd, (struct sockaddr *)&at, sizeof at))
			fail("connect");
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1))
		fail("listen");
	puts("listening");
	fflush(stdout);
	accepted = accept(fd, NULL, NULL);
	if (accepted < 0)
		fail("accept");
	return accepted;
}

static void send_all(int fd)
{
	static unsigned char bytes[LENGTH];
	size_t at;

	for (at = 0; at < LENGTH; at++)
		bytes[at] = sent(at);
	for (at = 0; at < LENGTH;) {
		ssize_t written = write(fd, bytes + at, LENGTH - at);
		if (written <= 0)
			fail("write");
		at += written;
	}
}

static int receive_all(int fd)
{
	static unsigned char bytes[1 << 16];
	size_t total = 0;
	ssize_t got, at;

	usleep(300000);
	while ((got = read(fd, bytes, sizeof bytes)) > 0)
		for (at = 0; at < got; at++, total++)
			if (bytes[at] != sent(total))
				return printf("byte %zu differs\n", total), 1;
	if (got < 0)
		fail("read");
	printf("%zu bytes and the end\n", total);
	return total != LENGTH;
}

int main(int count, char **words)
{
	int sends = count > 3 && !strcmp(words[1], "send");
	char *way = sends ? words[2] : "";
	char **rest = words + (sends ? 3 : 2);
	int left = count - (sends ? 3 : 2);
	int connects = left == 3 && !strcmp(rest[0], "connect");
	int fd;

	if (left < 2 || (!connects && strcmp(rest[0], "listen")))
		return 2;
	fd = connected(connects, rest[1], rest[left - 1]);
	if (!sends)
		return receive_all(fd);
	send_all(fd);
	if (!strcmp(way, "_exit"))
		_exit(0);
	if (!strcmp(way, "close"))
		close(fd);
	return 0;
}
