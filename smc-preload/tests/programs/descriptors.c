/* Descriptors of a connection: duplicates, in a child, in another process, and none left. */
#include "scenario.h"

/* Trap 6: duplicates keep the connection. */
void dup_client(int listener)
{
	int fd = connected(), other = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	int over = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(other >= 0 && high >= 100);
	close(fd);
	send_text(other, "quest");
	CHECK(dup2(other, over) == over);
	close(other);
	send_text(over, "ion");
	close(over);
	expect(high, "answer");
	CHECK(dup2(0, high) == high);
}

/* A connection that a parent uses is the parent's. */
void inherited_client(int listener)
{
	int fd = connected(), status;
	send_text(fd, "quest");
	pid_t child = fork();
	if (child == 0) {
		close(fd);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	send_text(fd, "ion");
	expect(fd, "answer");
}

/* A connection cannot be passed to another process: it says so, and TCP can be. */
void passed_client(int listener)
{
	int fd = connected(), pair[2];
	char buffer[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec slice = {"x", 1};
	struct msghdr message = {.msg_iov = &slice, .msg_iovlen = 1, .msg_control = buffer, .msg_controllen = sizeof buffer};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	ssize_t sent = sendmsg(pair[0], &message, 0);
	CHECK(sent == 1 || (sent == -1 && errno == EINVAL && getenv("LD_PRELOAD")));
	send_text(fd, "question");
	expect(fd, "answer");
}

static void permit(rlim_t descriptors)
{
	struct rlimit limit = {descriptors, descriptors};
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* So few that the library takes none. */
void few_server(int listener)
{
	permit(60);
	echo_all(accepted(listener));
}

/* The program has all but the one for the connection. */
void none_left_server(int listener)
{
	int any, last = -1;
	permit(100);
	while ((any = dup(listener)) >= 0)
		last = last < 0 ? any : last;
	CHECK(errno == EMFILE && close(last) == 0);
	echo_all(accepted(listener));
}
