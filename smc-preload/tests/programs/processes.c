/* Processes that serve connections, and that are killed. */
#include "scenario.h"

/* Trap 7: a child serves what its parent has accepted. */
void fork_server(int listener)
{
	int fd = accepted(listener), status;
	pid_t child = fork();
	if (child == 0) {
		close(listener);
		expect(fd, "question");
		send_text(fd, "answer");
		expect_end(fd);
		_exit(0);
	}
	close(fd);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Trap 4: several processes accept from one listener. */
void workers_server(int listener)
{
	int status;
	pid_t workers[3];
	for (int worker = 0; worker < 3; worker++)
		if ((workers[worker] = fork()) == 0) {
			for (;;) {
				int fd = accepted(listener);
				char bytes[9] = {0};
				read_all(fd, bytes, 8);
				if (strcmp(bytes, "the end.") == 0)
					_exit(0);
				send_text(fd, "answer");
				close(fd);
			}
		}
	for (int worker = 0; worker < 3; worker++)
		CHECK(waitpid(workers[worker], &status, 0) > 0 && status == 0);
}

void workers_client(int listener)
{
	for (int number = 0; number < 30; number++) {
		int fd = connected();
		send_text(fd, "question");
		expect(fd, "answer");
		close(fd);
	}
	for (int worker = 0; worker < 3; worker++)
		send_text(connected(), "the end.");
}

/* Of a process that is killed the peer gets the end of the stream. */
void killed_server(int listener)
{
	int fd = accepted(listener);
	expect(fd, "question");
	send_text(fd, "answer");
	expect_end(fd);
	wait_for(fd, POLLIN);
	expect_end(fd);
}

void killed_client(int listener)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		answered_client(listener);
		kill(getpid(), SIGKILL);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}
