/* Datagrams that carry when they were sent, and how long each was on its way by the kernel's stamp of its arrival.
 *
 *   oneway receive PORT COUNT                  nanoseconds, a line each; ends when all came, or none has for three seconds
 *   oneway send ADDRESS PORT COUNT EVERY_US
 *
 * Both ends have one clock. For guests that have no Python (accuracy is the same where there is one). */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static int64_t now_ns(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int fail(const char *what) {
	perror(what);
	return 1;
}

static int receive(int port, long count) {
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct timeval patience = {.tv_sec = 3};
	int here = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
	setsockopt(here, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
	setsockopt(here, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (bind(here, (struct sockaddr *)&own, sizeof own)) return fail("bind");
	while (count-- > 0) {
		int64_t sent_ns;
		char controls[128];
		struct iovec part = {&sent_ns, sizeof sent_ns};
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = controls, .msg_controllen = sizeof controls};
		if (recvmsg(here, &message, 0) != sizeof sent_ns) break;
		struct cmsghdr *control = CMSG_FIRSTHDR(&message);
		if (!control || control->cmsg_type != SO_TIMESTAMPNS) return fail("no stamp");
		struct timespec came;
		memcpy(&came, CMSG_DATA(control), sizeof came);
		printf("%lld\n", (long long)came.tv_sec * 1000000000 + came.tv_nsec - sent_ns);
	}
	return 0;
}

static int send_all(const char *address, int port, long count, long every_us) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (inet_pton(AF_INET, address, &to.sin_addr) != 1) return fail("address");
	int here = socket(AF_INET, SOCK_DGRAM, 0);
	if (connect(here, (struct sockaddr *)&to, sizeof to)) return fail("connect");
	int64_t due_ns = now_ns(CLOCK_MONOTONIC);
	while (count-- > 0) {
		due_ns += every_us * 1000;
		struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		int64_t stamp_ns = now_ns(CLOCK_REALTIME);
		if (send(here, &stamp_ns, sizeof stamp_ns, 0) < 0) return fail("send");
	}
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 4 && !strcmp(argv[1], "receive")) return receive(atoi(argv[2]), atol(argv[3]));
	if (argc == 6 && !strcmp(argv[1], "send")) return send_all(argv[2], atoi(argv[3]), atol(argv[4]), atol(argv[5]));
	fprintf(stderr, "oneway receive PORT COUNT | send ADDRESS PORT COUNT EVERY_US\n");
	return 2;
}
