pub(crate) mod builder;
pub(crate) mod kernels;
pub(crate) mod launcher;
pub(crate) mod ports;
#[cfg(test)]
mod tests;
