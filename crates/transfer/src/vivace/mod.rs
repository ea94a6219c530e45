//! PCC Vivace: Dong, Meng, Zarchy, Arslan, Gilad, Godfrey and Schapira, "PCC Vivace: Online-Learning Congestion
//! Control", NSDI 2018. [`RateControl`] is the paper's; what carries the bytes, a reliable stream in UDP with a
//! confirmation for each packet, is ours ([`Sender`], [`Receiver`]). No clock, no sockets: times and randomness are
//! arguments.

mod packet;
mod rate;
mod receiver;
mod sender;

pub use packet::{Confirmation, Data, MAX_DATAGRAM};
pub use rate::{Interval, Monitored, RateControl};
pub use receiver::Receiver;
pub use sender::{Sender, SenderStats};

#[cfg(test)]
mod tests;
