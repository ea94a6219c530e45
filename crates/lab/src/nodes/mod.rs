pub(crate) mod builder;
pub(crate) mod cgroups;
pub(crate) mod containers;
pub(crate) mod elsewhere;
pub(crate) mod engine;
pub(crate) mod health;
pub(crate) mod images;
pub(crate) mod importing;
pub(crate) mod kept;
pub(crate) mod kernels;
pub(crate) mod launcher;
pub(crate) mod management;
pub(crate) mod own_stack;
pub(crate) mod ports;
pub(crate) mod quarters;
pub(crate) mod settings;
pub(crate) mod stackless;
#[cfg(test)]
mod tests;
