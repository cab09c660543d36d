//! How long work is interrupted.

/// Called between the pieces of long work, several times a second; an error ends the work.
pub(crate) type Interrupt<'a> = &'a mut dyn FnMut() -> crate::Result<()>;
