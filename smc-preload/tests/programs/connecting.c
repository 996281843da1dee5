/* Connections that are made: by a second call, to a closed port, to the own process. */
#include "scenario.h"

/* Trap 1 and 2: a second connect() returns how the first went, and addresses are TCP's. */
void second_connect_client(int listener)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 1;
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	int done = connect(fd, (struct sockaddr *)&address, sizeof address);
	CHECK(done == 0 || errno == EINPROGRESS);
	CHECK(wait_for(fd, POLLOUT) == POLLOUT);
	done = connect(fd, (struct sockaddr *)&address, sizeof address);
	CHECK(done == 0 || errno == EISCONN);
	CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EISCONN);
	CHECK(getpeername(fd, (struct sockaddr *)&peer, &len) == 0);
	CHECK(peer.sin_family == AF_INET && peer.sin_port == address.sin_port);
	len = sizeof error;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	char byte;
	CHECK(read(fd, &byte, 1) == -1 && errno == EAGAIN);
	send_text(fd, "question");
	CHECK(wait_for(fd, POLLIN) == POLLIN);
	expect(fd, "answer");
}

void refused_client(int listener)
{
	struct sockaddr_in closed = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), error = 0;
	socklen_t len = sizeof closed;
	CHECK(bind(fd, (struct sockaddr *)&closed, len) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&closed, &len) == 0);
	int other = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(other, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == ECONNREFUSED);
	other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(other, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == EINPROGRESS) {
		CHECK(wait_for(other, POLLOUT) & POLLERR);
		len = sizeof error;
		CHECK(getsockopt(other, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
		CHECK(error == ECONNREFUSED);
	}
	answered_client(listener);
}

/* The client is of the same process. */
void own_server(int listener)
{
	in_addr_t to[] = {INADDR_LOOPBACK, INADDR_ANY};
	for (int round = 0; round < 4; round++) {
		int client = socket(AF_INET, SOCK_STREAM, 0);
		address.sin_addr.s_addr = htonl(to[round / 2]);
		if (round % 2)
			nonblocking(client);
		int begun = connect(client, (struct sockaddr *)&address, sizeof address);
		CHECK(begun == 0 || (round % 2 && errno == EINPROGRESS));
		int fd = accepted(listener);
		send_text(fd, "answer");
		wait_for(client, POLLIN);
		expect(client, "answer");
		send_text(client, "question");
		wait_for(fd, POLLIN);
		expect(fd, "question");
		close(client);
		expect_end(fd);
		close(fd);
	}
}
