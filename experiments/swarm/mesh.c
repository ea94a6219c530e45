/* Everybody sends to everybody: one process per craft, all connections beginning at the same instant.
 *
 *   mesh MODE NUMBER COUNT FOLDER SECONDS RATE BYTES
 *
 * MODE is tcp (as fast as it goes), udp (RATE bit/s on each connection, in datagrams of BYTES) or cast (RATE bit/s of multicast); who has
 * RATE 0 only listens.
 * FOLDER is shared by all: `peers` has an IPv4 address a line, `ready-NUMBER` says that a process has its sockets, and `go` has the
 * instant to begin at (CLOCK_MONOTONIC, ns). Rows of CSV on stdout:
 *   sent,TO,PACKETS,BYTES,FIRST_NS,FULL_NS  what left on a connection, how long after the instant the first packet of it did, and how long after
 *                                        all may send as fast as they can the first of that did (tcp)
 *   got,FROM,PACKETS,BYTES,0             what arrived in time
 *   host,RCVBUF_ERRORS,IN_ERRORS,SNDBUF_ERRORS,0   what this node's kernel dropped of UDP for want of room (/proc/net/snmp)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, PORT = 7000, CHUNK = 128 << 10, BATCH = 64, LINGER_NS = 500000000, LEAD_NS = 100000000 };

static struct sockaddr_in peer[MOST];
static uint64_t sent_packets[MOST], sent_bytes[MOST], got_packets[MOST], got_bytes[MOST];
static int64_t first_ns[MOST], full_ns[MOST];
static char chunk[CHUNK];
static int own, count;
static const char *folder;

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void read_peers(void)
{
	char path[512], line[64];
	snprintf(path, sizeof path, "%s/peers", folder);
	FILE *file = fopen(path, "r");
	if (!file)
		fail(path);
	for (int i = 0; i < count; i++) {
		if (!fgets(line, sizeof line, file))
			fail("peers");
		line[strcspn(line, "\n")] = 0;
		peer[i].sin_family = AF_INET;
		peer[i].sin_port = htons(PORT);
		if (!inet_pton(AF_INET, line, &peer[i].sin_addr))
			fail(line);
	}
	fclose(file);
}

/* Says that it is ready and waits for the instant. */
static int64_t wait_for_go(void)
{
	char path[512];
	snprintf(path, sizeof path, "%s/ready-%d", folder, own);
	int file = open(path, O_CREAT | O_WRONLY, 0644);
	if (file < 0)
		fail(path);
	close(file);
	snprintf(path, sizeof path, "%s/go", folder);
	for (int tries = 0; tries < 6000; tries++) {
		FILE *go = fopen(path, "r");
		long long at;
		if (go) {
			int read = fscanf(go, "%lld", &at);
			fclose(go);
			if (read == 1) {
				int64_t left = at - now_ns();
				if (left > 0) {
					struct timespec t = {at / 1000000000, at % 1000000000};
					clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
				}
				return at;
			}
		}
		usleep(10000);
	}
	fprintf(stderr, "nobody said go\n");
	exit(1);
}

static void note_sent(int to, int64_t start, uint64_t packets, uint64_t bytes)
{
	if (!sent_packets[to])
		first_ns[to] = now_ns() - start;
	sent_packets[to] += packets;
	sent_bytes[to] += bytes;
}

static void tcp(double seconds)
{
	int out[MOST], in[MOST * 2], whose[MOST * 2], inbound = 0, one = 1;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (void *)&peer[own], sizeof peer[own]) || listen(listener, MOST))
		fail("listen");
	for (int i = 0; i < count; i++) {
		out[i] = -1;
		if (i == own)
			continue;
		for (int tries = 0;; tries++) {
			out[i] = socket(AF_INET, SOCK_STREAM, 0);
			if (!connect(out[i], (void *)&peer[i], sizeof peer[i]))
				break;
			close(out[i]);
			if (tries > 1500)
				fail("connect");
			usleep(20000);
		}
		unsigned char head = own;
		if (write(out[i], &head, 1) != 1)
			fail("write");
		fcntl(out[i], F_SETFL, O_NONBLOCK);
	}
	while (inbound < count - 1) {
		int one_more = accept(listener, NULL, NULL);
		unsigned char head;
		if (one_more < 0 || read(one_more, &head, 1) != 1)
			fail("accept");
		fcntl(one_more, F_SETFL, O_NONBLOCK);
		in[inbound] = one_more;
		whose[inbound++] = head;
	}
	int polled = epoll_create1(0);
	for (int i = 0; i < inbound; i++) {
		struct epoll_event e = {EPOLLIN, {.u32 = MOST + i}};
		epoll_ctl(polled, EPOLL_CTL_ADD, in[i], &e);
	}
	/* Every connection begins with a packet of one byte, and all that follows waits until all have begun: whoever sends as fast as it
	 * can holds a processor for whole slices, in which those who have not woken yet cannot. */
	int64_t start = wait_for_go(), full = start + LEAD_NS, end = full + (int64_t)(seconds * 1e9);
	for (int i = 0; i < count; i++)
		if (out[i] >= 0 && write(out[i], chunk, 1) == 1)
			note_sent(i, start, 1, 1);
	struct timespec t = {full / 1000000000, full % 1000000000};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	for (int i = 0; i < count; i++) {
		struct epoll_event e = {EPOLLOUT, {.u32 = i}};
		if (out[i] >= 0)
			epoll_ctl(polled, EPOLL_CTL_ADD, out[i], &e);
	}
	while (now_ns() < end) {
		struct epoll_event e[BATCH];
		int n = epoll_wait(polled, e, BATCH, 10);
		for (int k = 0; k < n; k++) {
			if (e[k].data.u32 < MOST) {
				int to = e[k].data.u32;
				ssize_t done = write(out[to], chunk, sizeof chunk);
				if (done > 0 && !full_ns[to])
					full_ns[to] = now_ns() - full;
				if (done > 0)
					note_sent(to, start, 1, done);
			} else {
				int i = e[k].data.u32 - MOST;
				ssize_t done = read(in[i], chunk, sizeof chunk);
				if (done > 0 && now_ns() < end) {
					got_packets[whose[i]]++;
					got_bytes[whose[i]] += done;
				}
				if (done == 0)
					epoll_ctl(polled, EPOLL_CTL_DEL, in[i], NULL);
			}
		}
	}
}

struct head {
	uint32_t from;
	uint32_t run;
};

static void receive(int socket, uint32_t run)
{
	static char buffers[BATCH][2048];
	static struct iovec parts[BATCH];
	static struct mmsghdr messages[BATCH];
	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){buffers[i], sizeof buffers[i]};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
	}
	for (int rounds = 0; rounds < 8; rounds++) {
		int n = recvmmsg(socket, messages, BATCH, MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++) {
			struct head *head = (void *)buffers[i];
			if (messages[i].msg_len >= sizeof *head && head->run == run && head->from < MOST) {
				got_packets[head->from]++;
				got_bytes[head->from] += messages[i].msg_len;
			}
		}
		if (n < BATCH)
			return;
	}
}

/* Every connection has its turn once in an interval, all in its first 10 ms; cast has one connection, to the group. */
static void datagrams(int cast, double seconds, double rate_bps, int bytes)
{
	int one = 1, room = 4 << 20, to_all = cast ? 1 : count - 1;
	uint32_t run = strtoul(strrchr(folder, '-') ? strrchr(folder, '-') + 1 : "0", NULL, 10);
	int radio = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	setsockopt(radio, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
	setsockopt(radio, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(radio, (void *)&any, sizeof any))
		fail("bind");
	struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	if (cast) {
		struct ip_mreq join = {.imr_interface = peer[own].sin_addr};
		unsigned char zero = 0;
		inet_pton(AF_INET, "239.20.0.2", &group.sin_addr);
		join.imr_multiaddr = group.sin_addr;
		setsockopt(radio, IPPROTO_IP, IP_MULTICAST_IF, &peer[own].sin_addr, sizeof(struct in_addr));
		setsockopt(radio, IPPROTO_IP, IP_MULTICAST_LOOP, &zero, sizeof zero);
		if (setsockopt(radio, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join))
			fail("join");
	}
	int turn[MOST], turns = 0;
	for (int i = 1; i < count && !cast; i++)
		turn[turns++] = (own + i) % count;
	if (cast)
		turn[turns++] = own;
	struct head *head = (void *)chunk;
	head->from = own;
	head->run = run;
	double interval_ns = bytes * 8e9 / rate_bps, spread_ns = interval_ns < 1e7 ? interval_ns : 1e7;
	int64_t start = wait_for_go(), end = start + (int64_t)(seconds * 1e9);
	uint64_t k = 0;
	for (;;) {
		double due = rate_bps > 0 ? start + (k / turns) * interval_ns + (k % turns) * spread_ns / to_all : end;
		int64_t now = now_ns();
		if (now >= end + LINGER_NS)
			break;
		if (now < end && due < end && due <= now) {
			int to = turn[k % turns];
			struct sockaddr_in *goal = cast ? &group : &peer[to];
			ssize_t done = sendto(radio, chunk, bytes, MSG_DONTWAIT, (void *)goal, sizeof *goal);
			/* What the kernel does not take was not sent; its turn is over all the same. */
			if (done == bytes)
				note_sent(to, start, 1, bytes);
			k++;
			if (k % 16)
				continue;
		}
		receive(radio, run);
		now = now_ns();
		int64_t left = (due < end ? (int64_t)due : end + LINGER_NS) - now;
		if (left > 0) {
			struct pollfd wait = {radio, POLLIN, 0};
			struct timespec t = {left / 1000000000, left % 1000000000};
			ppoll(&wait, 1, &t, NULL);
		}
	}
	receive(radio, run);
}

static void host_losses(void)
{
	char line[1024], *names = NULL;
	long long in_errors = 0, rcvbuf = 0, sndbuf = 0;
	FILE *file = fopen("/proc/net/snmp", "r");
	while (file && fgets(line, sizeof line, file)) {
		if (strncmp(line, "Udp:", 4))
			continue;
		if (!names) {
			names = strdup(line);
			continue;
		}
		char *a, *b, *name = strtok_r(names, " \n", &a), *value = strtok_r(line, " \n", &b);
		for (; name && value; name = strtok_r(NULL, " \n", &a), value = strtok_r(NULL, " \n", &b)) {
			if (!strcmp(name, "InErrors"))
				in_errors = atoll(value);
			if (!strcmp(name, "RcvbufErrors"))
				rcvbuf = atoll(value);
			if (!strcmp(name, "SndbufErrors"))
				sndbuf = atoll(value);
		}
		break;
	}
	printf("host,%lld,%lld,%lld,0\n", rcvbuf, in_errors, sndbuf);
}

int main(int argc, char **argv)
{
	if (argc != 8) {
		fprintf(stderr, "mesh MODE NUMBER COUNT FOLDER SECONDS RATE BYTES\n");
		return 2;
	}
	own = atoi(argv[2]);
	count = atoi(argv[3]);
	folder = argv[4];
	double seconds = atof(argv[5]), rate_bps = atof(argv[6]);
	int bytes = atoi(argv[7]);
	if (count > MOST || own >= count || bytes > (int)sizeof chunk)
		return 2;
	read_peers();
	if (!strcmp(argv[1], "tcp"))
		tcp(seconds);
	else
		datagrams(!strcmp(argv[1], "cast"), seconds, rate_bps, bytes);
	for (int i = 0; i < count; i++) {
		if (sent_packets[i])
			printf("sent,%d,%llu,%llu,%lld,%lld\n", i, (unsigned long long)sent_packets[i],
			       (unsigned long long)sent_bytes[i], (long long)first_ns[i], (long long)full_ns[i]);
		if (got_packets[i])
			printf("got,%d,%llu,%llu,0\n", i, (unsigned long long)got_packets[i],
			       (unsigned long long)got_bytes[i]);
	}
	host_losses();
	return 0;
}
