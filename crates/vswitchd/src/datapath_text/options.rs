//! The options of Geneve in the text of a datapath flow.
//!
//! ```text
//!   tunnel(tun_id=0x1,dst=1.1.1.1,geneve({class=0xffff,type=0,len=4,0xb/0xf}),flags(df|key))
//! ```

use std::fmt::Write;

use thalweg_packet::{FieldId, PortId, TUNNEL_OPTIONS, standard as f};

use super::field_bits::FieldBits;
use super::scan::Scanner;

/// The longest data of an option in bytes.
const LEN_MAX: u8 = 124;

/// An option of Geneve by its class and type. Which field it is depends on the bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionBits {
    /// Its class.
    pub class: u16,
    /// Its type.
    pub kind: u8,
    /// Bytes of its value.
    pub len_bytes: u8,
    /// The value, if a field can hold it, and which of its bits are compared.
    pub bits: Option<(u128, u128)>,
}

/// Reads the inside of `geneve(...)`; `None` if it is malformed.
pub(super) fn read_geneve(text: &str) -> Option<Vec<OptionBits>> {
    let mut rest = text;
    let mut options = Vec::new();
    while !rest.is_empty() {
        let (inside, behind) = rest.strip_prefix('{')?.split_once('}')?;
        options.push(read_option(inside)?);
        rest = behind;
    }
    Some(options)
}

fn read_option(text: &str) -> Option<OptionBits> {
    let mut parts = text.split(',');
    let mut member = |name: &str| {
        let (found, value) = parts.next()?.split_once('=')?;
        let value = value.split('/').next()?;
        let mut scanner = Scanner {
            rest: value,
            masks: false,
        };
        let number = scanner.number().filter(|_| found == name)?;
        scanner.rest.is_empty().then_some(number)
    };
    let class = u16::try_from(member("class")?).ok()?;
    let kind = u8::try_from(member("type")?).ok()?;
    let len = member("len")?;
    let len_bytes = u8::try_from(len).ok().filter(|len| *len <= LEN_MAX)?;
    let bits = match parts.next() {
        None => Some((0, 0)),
        Some(value) => {
            let (value, mask) = match value.split_once('/') {
                Some((value, mask)) => (digits(value)?, Some(digits(mask)?)),
                None => (digits(value)?, None),
            };
            let whole = ones(len_bytes);
            let number = |digits: &str| u128::from_str_radix(digits, 16).ok();
            let mask = mask.map_or(Some(whole), number);
            number(value)
                .zip(mask)
                .filter(|(value, mask)| (value | mask) & !whole == 0)
        }
    };
    (parts.next().is_none()).then_some(OptionBits {
        class,
        kind,
        len_bytes,
        bits,
    })
}

/// The digits behind `0x`, without zeros in front.
fn digits(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("0x")?;
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let short = digits.trim_start_matches('0');
    are_digits.then_some(if short.is_empty() { "0" } else { short })
}

/// The bits of a value of `len_bytes`; all, if a field cannot hold it.
fn ones(len_bytes: u8) -> u128 {
    match len_bytes {
        0 => 0,
        1..16 => (1 << (8 * u32::from(len_bytes))) - 1,
        _ => u128::MAX,
    }
}

/// Asks which option a field is, where a packet came by this port.
pub type AskOption<'a> = &'a dyn Fn(PortId, FieldId) -> Option<OptionBits>;

/// Writes the options of a key, as far as they are compared.
pub(super) fn write_geneve(
    key: &FieldBits,
    mask: &FieldBits,
    option_of: &dyn Fn(FieldId) -> Option<OptionBits>,
) -> String {
    let mut options = String::new();
    let present = key.get(f::TUN_OPTIONS);
    for number in 0..TUNNEL_OPTIONS {
        let field = f::tunnel_option_field(number);
        let compared = mask.get(field);
        let is_compared = compared != 0 || mask.get(f::TUN_OPTIONS) >> number & 1 != 0;
        if !is_compared || present >> number & 1 == 0 {
            continue;
        }
        let Some(option) = option_of(field) else {
            continue;
        };
        let kind = match option.kind {
            0 => "0".to_owned(),
            kind => format!("{kind:#x}"),
        };
        let _ = write!(
            options,
            "{{class={:#x},type={kind},len={}",
            option.class, option.len_bytes
        );
        if compared != 0 {
            let _ = write!(options, ",{:#x}", key.get(field) & compared);
        }
        if compared != 0 && compared != ones(option.len_bytes) {
            let _ = write!(options, "/{compared:#x}");
        }
        options.push('}');
    }
    options
}
