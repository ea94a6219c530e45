//! `constel box`, between veths of namespaces that stand for two machines' cables.

mod cables;
mod draws;
mod host;
mod rules;
mod scenario;
use crate::support;
