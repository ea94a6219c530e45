//! Every byte is delivered once and in order, or the Consumer says why not; whatever
//! others send.
#![allow(clippy::allow_attributes_without_reason)]

mod delivery;
mod hostile;
mod long;
use crate::vnet;
