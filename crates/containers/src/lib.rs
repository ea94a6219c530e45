//! Nodes, and the images and engines that their containers need.
//!
//! * [`runtime`]: creates nodes, as network namespaces or as containers.
//! * [`image`]: reads container images from their sources and keeps them unpacked by digest. It runs nothing.
//! * [`engine`]: requests to Docker's or Podman's engine over its socket.
#![forbid(unsafe_code)]

pub mod engine;
pub mod image;
pub mod runtime;
