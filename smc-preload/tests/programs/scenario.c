/* What the scenarios share. */
#include "scenario.h"

struct sockaddr_in address;

int listening(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof address;
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0);
	CHECK(listen(fd, 64) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
	return fd;
}

int connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	return fd;
}

int accepted(int listener)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	int fd = accept(listener, (struct sockaddr *)&peer, &len);
	CHECK(fd >= 0 && peer.sin_family == AF_INET && len == sizeof peer);
	return fd;
}

void write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t done = write(fd, bytes, len);
		CHECK(done > 0);
		bytes += done;
		len -= done;
	}
}

void read_all(int fd, char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t done = read(fd, bytes, len);
		CHECK(done > 0);
		bytes += done;
		len -= done;
	}
}

void expect(int fd, const char *text)
{
	char bytes[256] = {0};
	read_all(fd, bytes, strlen(text));
	CHECK(strcmp(bytes, text) == 0);
}

void send_text(int fd, const char *text) { write_all(fd, text, strlen(text)); }

void expect_end(int fd)
{
	char byte;
	CHECK(read(fd, &byte, 1) == 0);
}

int wait_for(int fd, short events)
{
	struct pollfd polled = {.fd = fd, .events = events};
	CHECK(poll(&polled, 1, LONG) == 1);
	return polled.revents;
}

void nonblocking(int fd) { CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }

void add(int set, int fd, unsigned events, unsigned long data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* The only event, which must be of this data. */
unsigned event_of(int set, unsigned long data, int time)
{
	struct epoll_event events[4];
	int found = epoll_wait(set, events, 4, time);
	if (found == 0)
		return 0;
	CHECK(found == 1 && events[0].data.u64 == data);
	return events[0].events;
}

void answer_server(int listener)
{
	int fd = accepted(listener);
	expect(fd, "question");
	send_text(fd, "answer");
	expect_end(fd);
}

void answered_client(int listener)
{
	int fd = connected();
	send_text(fd, "question");
	expect(fd, "answer");
}

void echo_all(int fd)
{
	char bytes[256];
	ssize_t len;
	while ((len = read(fd, bytes, sizeof bytes)) > 0)
		write_all(fd, bytes, len);
	dprintf(1, "errno %d\n", len < 0 ? errno : 0);
	close(fd);
}
