// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
//
// TCP Hybla: Caini and Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", International
// Journal of Satellite Communications and Networking 22(5), 2004.
//
// A connection with a long round trip grows as fast as one with RTT0 = 25 ms would. With rho = RTT / RTT0, at
// least 1, each acknowledged segment adds (equation 7)
//
//   slow start            2^rho - 1
//   congestion avoidance  rho^2 / W
//
// The reaction to loss is NewReno's. Fixed-point numbers have 16 fractional bits.
#include "tcp.h"

#define RTT0_US 25000
#define ONE 65536
// 2^rho beyond this fills any window with one acknowledgement.
#define RHO_MAX (16 * ONE)

struct hybla {
	__u32 rho;
	__u32 least_rtt_us;
	__u32 fraction; // of a segment, not yet in the window
};

// 2^x for 0 <= x <= 16, with a quadratic between whole numbers: at most 0.3 % off.
static __always_inline __u64 power_of_two(__u32 x)
{
	__u64 f = x & (ONE - 1);
	__u64 mantissa = ONE + ((f * (43025 + ((22511 * f) >> 16))) >> 16);

	return mantissa << ((x >> 16) & 31);
}

static __always_inline void remember_rtt(struct hybla *h, __u32 rtt_us)
{
	__u64 rho = (__u64)rtt_us * ONE / RTT0_US;

	h->least_rtt_us = rtt_us;
	h->rho = rho < ONE ? ONE : rho > RHO_MAX ? RHO_MAX : rho;
}

SEC("struct_ops")
void BPF_PROG(cst_hybla_init, struct sock *sk)
{
	struct hybla *h = private_of(sk);

	h->rho = ONE;
	h->least_rtt_us = 0;
	h->fraction = 0;
	// Section 4: without pacing, windows that grow this fast are sent in bursts.
	if (sk->sk_pacing_status == PACING_NONE)
		sk->sk_pacing_status = PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(cst_hybla_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct hybla *h = private_of(sk);

	// Queueing must not make a connection more aggressive, so rho follows the shortest round trip.
	if (sample->rtt_us > 0 && (!h->least_rtt_us || sample->rtt_us < h->least_rtt_us))
		remember_rtt(h, sample->rtt_us);
}

SEC("struct_ops")
void BPF_PROG(cst_hybla_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp(sk);
	struct hybla *h = private_of(sk);
	__u64 rho = h->rho, growth;
	__u32 window = tp->snd_cwnd, limit = tp->snd_cwnd_clamp;

	if (!window_is_used(tp) || !window)
		return;
	if (in_slow_start(tp)) {
		growth = power_of_two(rho) - ONE;
		limit = at_most(limit, tp->snd_ssthresh);
	} else {
		growth = rho * rho / ONE / window;
	}
	growth = growth * acked + h->fraction;
	h->fraction = growth & (ONE - 1);
	growth = (growth >> 16) + window;
	tp->snd_cwnd = growth < limit ? growth : at_least(limit, window);
}

SEC("struct_ops")
__u32 BPF_PROG(cst_hybla_ssthresh, struct sock *sk)
{
	return at_least(tcp(sk)->snd_cwnd / 2, 2);
}

SEC("struct_ops")
__u32 BPF_PROG(cst_hybla_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops cst_hybla = {
	.init = (void *)cst_hybla_init,
	.pkts_acked = (void *)cst_hybla_acked,
	.cong_avoid = (void *)cst_hybla_avoid,
	.ssthresh = (void *)cst_hybla_ssthresh,
	.undo_cwnd = (void *)cst_hybla_undo,
	.name = "hybla",
};
