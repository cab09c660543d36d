//! Interrupting long computations.

/// Callback between pieces of a long computation, several times a second; an error ends it.
pub(crate) type Interrupt<'a> = &'a mut dyn FnMut() -> crate::Result<()>;
