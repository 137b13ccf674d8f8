//! The options of a Geneve header, as they are on the wire.

use std::fmt;
use std::hash::{Hash, Hasher};

use thalweg_packet::wire::{GeneveOption, GeneveOptions};

use crate::{DecapsulateError, EncapsulateError};

/// The most bytes of options in a header: 63 words (RFC 8926 section 3.4).
pub const OPTIONS_MAX_BYTES: usize = 252;

/// The options of a header: whole ones, whose lengths add up.
#[derive(Clone)]
pub struct TunnelOptions {
    bytes: [u8; OPTIONS_MAX_BYTES],
    len: u8,
}

impl TunnelOptions {
    /// Reads options as they are on the wire.
    ///
    /// # Errors
    /// [`DecapsulateError::GeneveOptions`] if the lengths do not add up, or for more than
    /// [`OPTIONS_MAX_BYTES`].
    pub fn parse(bytes: &[u8]) -> Result<Self, DecapsulateError> {
        let mut options = TunnelOptions::default();
        options.replace(bytes)?;
        Ok(options)
    }

    /// Reads options in place of those that were there, which stay if there is an error.
    pub(crate) fn replace(&mut self, bytes: &[u8]) -> Result<(), DecapsulateError> {
        if bytes.len() > OPTIONS_MAX_BYTES || GeneveOptions::new_checked(bytes).is_err() {
            return Err(DecapsulateError::GeneveOptions);
        }
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.len = bytes.len() as u8;
        Ok(())
    }

    /// Adds an option behind the others.
    ///
    /// # Errors
    /// [`EncapsulateError::OptionsTooLong`] if there is no room for it.
    ///
    /// # Panics
    /// If the option's value is longer than 124 bytes, or no multiple of four.
    pub fn push(&mut self, option: &GeneveOption<'_>) -> Result<(), EncapsulateError> {
        let (start, end) = (self.len(), self.len() + option.buffer_len());
        let room = self.bytes.get_mut(start..end);
        option.emit(room.ok_or(EncapsulateError::OptionsTooLong)?);
        self.len = end as u8;
        Ok(())
    }

    /// The options as they are on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Bytes of all options.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The options, in order.
    pub fn iter(&self) -> GeneveOptions<'_> {
        GeneveOptions::new_checked(self.bytes()).expect("the lengths of the options add up")
    }

    /// Whether receivers must understand some option.
    pub fn has_critical(&self) -> bool {
        self.iter().any(|option| option.is_critical())
    }
}

impl Default for TunnelOptions {
    /// None.
    fn default() -> Self {
        TunnelOptions {
            bytes: [0; OPTIONS_MAX_BYTES],
            len: 0,
        }
    }
}

impl PartialEq for TunnelOptions {
    fn eq(&self, other: &TunnelOptions) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for TunnelOptions {}

impl Hash for TunnelOptions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl fmt::Debug for TunnelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
