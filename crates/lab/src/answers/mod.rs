pub(crate) mod impair;
pub(crate) mod inspect;
pub(crate) mod view;
