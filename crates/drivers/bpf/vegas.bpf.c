// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
//
// TCP Vegas: Brakmo and Peterson, "TCP Vegas: end to end congestion avoidance on a global internet", IEEE JSAC
// 13(8), 1995.
//
// Once per round trip it compares the throughput that the window would have on an empty path with the actual one:
//
//   diff = W/BaseRTT - W/RTT, times BaseRTT: the segments queued in the path
//
//   congestion avoidance  W + 1 when diff < alpha, W - 1 when diff > beta
//   slow start            doubles every other round trip, ends when diff > gamma
//
// A loss that is noticed early costs a quarter of the window (section 3.1).
#include "tcp.h"

#define ALPHA 2
#define BETA 4
#define GAMMA 1

struct vegas {
	__u32 base_rtt_us; // shortest ever
	__u32 rtt_us; // shortest of this round trip: a single late segment is not a queue
	__u32 samples;
	__u32 ends_at; // the round trip is over when this is acknowledged
	__u32 grows; // whether slow start may grow in this round trip
};

static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline void begin_round(struct vegas *v, struct tcp_sock *tp)
{
	v->ends_at = tp->snd_nxt;
	v->rtt_us = ~0U;
	v->samples = 0;
}

SEC("struct_ops")
void BPF_PROG(cst_vegas_init, struct sock *sk)
{
	struct vegas *v = private_of(sk);

	v->base_rtt_us = ~0U;
	v->grows = 1;
	begin_round(v, tcp(sk));
}

SEC("struct_ops")
void BPF_PROG(cst_vegas_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *v = private_of(sk);

	if (sample->rtt_us <= 0)
		return;
	v->base_rtt_us = at_most(v->base_rtt_us, sample->rtt_us);
	v->rtt_us = at_most(v->rtt_us, sample->rtt_us);
	v->samples++;
}

SEC("struct_ops")
void BPF_PROG(cst_vegas_event, struct sock *sk, int event)
{
	if (event == EVENT_TX_START || event == EVENT_CWND_RESTART)
		begin_round(private_of(sk), tcp(sk));
}

// Only a window that is in use may grow. A window limited by the application or the receiver may still be too large.
static __always_inline void judge(struct vegas *v, struct tcp_sock *tp, bool used)
{
	__u32 window = tp->snd_cwnd, fits, waiting;

	if (!v->rtt_us || v->base_rtt_us > v->rtt_us)
		return;
	fits = (__u64)window * v->base_rtt_us / v->rtt_us;
	waiting = window - fits;
	if (in_slow_start(tp)) {
		v->grows = !v->grows;
		if (waiting > GAMMA) {
			tp->snd_cwnd = at_least(at_most(window, fits + 1), 2);
			tp->snd_ssthresh = at_least(tp->snd_cwnd - 1, 2);
		}
	} else if (waiting < ALPHA && used) {
		tp->snd_cwnd = at_most(window + 1, tp->snd_cwnd_clamp);
	} else if (waiting > BETA) {
		tp->snd_cwnd = at_least(window - 1, 2);
	}
}

SEC("struct_ops")
void BPF_PROG(cst_vegas_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp(sk);
	struct vegas *v = private_of(sk);

	if (!before(ack, v->ends_at)) {
		// A single sample could be that of a delayed acknowledgement.
		if (v->samples > 1)
			judge(v, tp, window_is_used(tp));
		begin_round(v, tp);
	}
	if (in_slow_start(tp) && v->grows && window_is_used(tp))
		tcp_slow_start(tp, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(cst_vegas_ssthresh, struct sock *sk)
{
	__u32 window = tcp(sk)->snd_cwnd;

	return at_least(window - window / 4, 2);
}

SEC("struct_ops")
__u32 BPF_PROG(cst_vegas_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops cst_vegas = {
	.init = (void *)cst_vegas_init,
	.pkts_acked = (void *)cst_vegas_acked,
	.cwnd_event = (void *)cst_vegas_event,
	.cong_avoid = (void *)cst_vegas_avoid,
	.ssthresh = (void *)cst_vegas_ssthresh,
	.undo_cwnd = (void *)cst_vegas_undo,
	.name = "vegas",
};
