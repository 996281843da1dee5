/* Bytes, in both directions and in one. */
#include "scenario.h"

void echo_server(int listener)
{
	static char bytes[1 << 20];
	int fd = accepted(listener);
	read_all(fd, bytes, sizeof bytes);
	write_all(fd, bytes, sizeof bytes);
	expect_end(fd);
}

void echo_client(int listener)
{
	static char bytes[1 << 20], back[1 << 20];
	for (size_t at = 0; at < sizeof bytes; at++)
		bytes[at] = (char)(at * 2654435761u >> 13);
	int fd = connected();
	write_all(fd, bytes, sizeof bytes);
	read_all(fd, back, sizeof back);
	CHECK(memcmp(bytes, back, sizeof back) == 0);
}

void half_close_server(int listener)
{
	int fd = accepted(listener);
	struct pollfd polled = {.fd = fd, .events = POLLRDHUP};
	CHECK(poll(&polled, 1, LONG) == 1 && polled.revents == POLLRDHUP);
	expect(fd, "question");
	expect_end(fd);
	send_text(fd, "answer");
	close(fd);
}

void half_close_client(int listener)
{
	int fd = connected();
	send_text(fd, "question");
	CHECK(shutdown(fd, SHUT_WR) == 0);
	signal(SIGPIPE, SIG_IGN);
	CHECK(write(fd, "x", 1) == -1 && errno == EPIPE);
	expect(fd, "answer");
	expect_end(fd);
	int events = wait_for(fd, POLLIN | POLLOUT | POLLRDHUP);
	CHECK((events & (POLLIN | POLLRDHUP | POLLHUP)) == (POLLIN | POLLRDHUP | POLLHUP));
}

void flags_client(int listener)
{
	int fd = connected(), count = 0;
	char bytes[16] = {0}, rest[16] = {0};
	CHECK(recv(fd, bytes, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	send_text(fd, "question");
	CHECK(recv(fd, bytes, 6, MSG_WAITALL | MSG_PEEK) > 0);
	CHECK(recv(fd, bytes, 4, MSG_WAITALL) == 4 && memcmp(bytes, "answ", 4) == 0);
	do
		CHECK(ioctl(fd, FIONREAD, &count) == 0);
	while (count < 2);
	struct iovec slices[] = {{bytes, 1}, {rest, 15}};
	struct msghdr message = {.msg_iov = slices, .msg_iovlen = 2};
	CHECK(recvmsg(fd, &message, 0) == 2 && bytes[0] == 'e' && rest[0] == 'r');
	CHECK(preadv(fd, slices, 2, 0) == -1 && errno == ESPIPE);
	CHECK(lseek(fd, 0, SEEK_CUR) == -1 && errno == ESPIPE);
	int kind = 0, domain = 0;
	socklen_t len = sizeof kind;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &len) == 0 && kind == SOCK_STREAM);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET);
	struct tcp_info info;
	len = sizeof info;
	CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_state == 1);
	struct timeval time = {.tv_usec = 20000};
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
	CHECK(read(fd, bytes, 1) == -1 && errno == EAGAIN);
}

/* Trap 5. */
void sendfile_client(int listener)
{
	char path[] = "/tmp/smc-preload-XXXXXX";
	int file = mkstemp(path), fd = connected();
	off_t offset = 2;
	unlink(path);
	write_all(file, "..question", 10);
	CHECK(sendfile(fd, file, &offset, 4) == 4 && offset == 6);
	CHECK(lseek(file, 6, SEEK_SET) == 6);
	CHECK(sendfile(fd, file, NULL, 100) == 4 && lseek(file, 0, SEEK_CUR) == 10);
	expect(fd, "answer");
}

/* Calls by number. */
void number_client(int listener)
{
	int fd = connected();
	char answer[7] = {0};
	CHECK(syscall(SYS_write, fd, "question", 8) == 8);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	CHECK(syscall(SYS_ppoll, &polled, 1, NULL, NULL, 0) == 1 && polled.revents == POLLIN);
	CHECK(syscall(SYS_recvfrom, fd, answer, 6, MSG_WAITALL, NULL, NULL) == 6);
	CHECK(strcmp(answer, "answer") == 0);
	CHECK(syscall(SYS_close, fd) == 0);
	CHECK(syscall(SYS_close, fd) == -1 && errno == EBADF);
}
