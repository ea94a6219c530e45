// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
//
// TCP Westwood+: Mascolo et al., "TCP Westwood: bandwidth estimation for enhanced transport over wireless
// links", MobiCom 2001, with the sampling of Grieco and Mascolo, "Performance evaluation and comparison of
// Westwood+, New Reno, and Vegas TCP congestion control", SIGCOMM CCR 34(2), 2004: one sample each round trip,
// so that compressed acknowledgements do not look like bandwidth.
//
//   sample     b_k = segments delivered in a round trip / its length (at least 50 ms)
//   estimate   B_k = 7/8 B_{k-1} + 1/8 b_k
//   loss       ssthresh = B * RTTmin
//
// Windows grow as with NewReno.
#include "tcp.h"

#define SHORTEST_SAMPLE_US 50000
#define US_PER_S 1000000ULL

struct westwood {
	__u64 started_us;
	__u64 rate; // segments in 2^20 seconds: fine enough for 10 kbit/s, wide enough for 100 Gbit/s
	__u32 delivered; // when the sample began
	__u32 least_rtt_us;
};

#define RATE_SHIFT 20

static __always_inline void begin_sample(struct westwood *w, struct tcp_sock *tp)
{
	w->started_us = tp->tcp_mstamp;
	w->delivered = tp->delivered;
}

SEC("struct_ops")
void BPF_PROG(cst_westwood_init, struct sock *sk)
{
	struct westwood *w = private_of(sk);

	w->rate = 0;
	w->least_rtt_us = 0;
	begin_sample(w, tcp(sk));
}

SEC("struct_ops")
void BPF_PROG(cst_westwood_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp(sk);
	struct westwood *w = private_of(sk);
	__u32 length = at_least(tp->srtt_us >> 3, SHORTEST_SAMPLE_US);
	__u64 took_us, rate;

	if (sample->rtt_us > 0 && (!w->least_rtt_us || sample->rtt_us < w->least_rtt_us))
		w->least_rtt_us = sample->rtt_us;
	took_us = tp->tcp_mstamp - w->started_us;
	if (took_us < length)
		return;
	rate = ((__u64)(tp->delivered - w->delivered) * US_PER_S << RATE_SHIFT) / took_us;
	// The filter starts at the first sample: there is no better estimate yet.
	w->rate = w->rate ? (7 * w->rate + rate) / 8 : rate;
	begin_sample(w, tp);
}

SEC("struct_ops")
void BPF_PROG(cst_westwood_event, struct sock *sk, int event)
{
	// An idle connection delivers nothing. Its sample would be a rate of the application, not of the path.
	if (event == EVENT_TX_START || event == EVENT_CWND_RESTART)
		begin_sample(private_of(sk), tcp(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(cst_westwood_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	struct westwood *w = private_of(sk);
	__u64 pipe = ((w->rate >> 8) * w->least_rtt_us / US_PER_S) >> (RATE_SHIFT - 8);

	if (!w->rate)
		return at_least(tp->snd_cwnd / 2, 2);
	return pipe > 0x7fffffff ? 0x7fffffff : at_least(pipe, 2);
}

SEC("struct_ops")
void BPF_PROG(cst_westwood_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(cst_westwood_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops cst_westwood = {
	.init = (void *)cst_westwood_init,
	.pkts_acked = (void *)cst_westwood_acked,
	.cwnd_event = (void *)cst_westwood_event,
	.cong_avoid = (void *)cst_westwood_avoid,
	.ssthresh = (void *)cst_westwood_ssthresh,
	.undo_cwnd = (void *)cst_westwood_undo,
	.name = "westwood",
};
