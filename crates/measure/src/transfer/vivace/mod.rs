//! PCC Vivace: Dong, Meng, Zarchy, Arslan, Gilad, Godfrey and Schapira, "PCC Vivace: Online-Learning Congestion
//! Control", NSDI 2018.
//!
//! [`RateControl`] follows the paper. The transport below it is Constel's: a reliable stream in UDP with an
//! acknowledgement for each packet ([`Sender`], [`Receiver`]). The module has no clock and no sockets: times and
//! randomness are arguments.

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
