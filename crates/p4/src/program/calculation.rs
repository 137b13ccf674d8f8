//! Calculations: hashes and checksums over fields packed bit to bit, and checksum fields.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::json::Node;

use super::code::Code;
use super::expression::Reader;
use super::headers::{Headers, Lane};
use super::ids::{CalculationId, FieldId, HeaderId};

/// A function from bytes to a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of simple_switch")]
pub enum Algorithm {
    Crc8Custom,
    Crc16,
    Crc16Custom,
    Crc32,
    Crc32Custom,
    Crc64Custom,
    CrcCcitt,
    /// The ones' complement sum of RFC 1071.
    Csum16,
    Xor16,
    Xor32,
    /// The first eight bytes as a number.
    Identity,
    /// Also called `bmv2_hash`.
    Xxh64,
    HashEx,
    /// The number of calls so far.
    RoundRobin,
    /// The same, but equal inputs get equal results.
    RoundRobinConsistent,
    Toeplitz,
}

impl Algorithm {
    fn read(node: &Node<'_>) -> Result<Algorithm, LoadError> {
        Ok(match node.text()? {
            "crc8_custom" => Algorithm::Crc8Custom,
            "crc16" => Algorithm::Crc16,
            "crc16_custom" => Algorithm::Crc16Custom,
            "crc32" => Algorithm::Crc32,
            "crc32_custom" => Algorithm::Crc32Custom,
            "crc64_custom" => Algorithm::Crc64Custom,
            "crcCCITT" => Algorithm::CrcCcitt,
            "csum16" | "cksum16" => Algorithm::Csum16,
            "xor16" => Algorithm::Xor16,
            "xor32" => Algorithm::Xor32,
            "identity" => Algorithm::Identity,
            "xxh64" | "bmv2_hash" => Algorithm::Xxh64,
            "hash_ex" => Algorithm::HashEx,
            "round_robin" => Algorithm::RoundRobin,
            "round_robin_consistent" => Algorithm::RoundRobinConsistent,
            "toeplitz" => Algorithm::Toeplitz,
            other => {
                return Err(node.refuse(format!("the algorithm {other:?} is not supported")));
            }
        })
    }
}

/// One part of the input of a calculation.
#[derive(Clone, Debug)]
pub enum Input {
    /// A field; omitted while its header is invalid.
    Field(FieldId),
    /// Constant bits, the first at the top of the first byte.
    Constant(Vec<u8>, u32),
    /// All fields of a header; omitted while it is invalid.
    Header(HeaderId),
    /// The bytes that the parser has not read.
    Payload,
}

/// A hash or checksum over fields.
#[derive(Clone, Debug)]
pub struct Calculation {
    /// Its name.
    pub name: String,
    /// The function.
    pub algorithm: Algorithm,
    /// Its input.
    pub input: Vec<Input>,
    /// The input as lanes, each with the word that says whether it is present; `None` if some
    /// input is no field of fixed width.
    pub(crate) lanes: Option<Box<[(u32, Lane)]>>,
}

/// A field that holds a checksum.
#[derive(Clone, Debug)]
pub struct Checksum {
    /// Its name.
    pub name: String,
    /// The field.
    pub target: FieldId,
    /// The calculation that gives the field's value.
    pub calculation: CalculationId,
    /// Whether it is verified after parsing.
    pub is_verified: bool,
    /// Whether it is updated before the packet leaves.
    pub is_updated: bool,
    /// The condition under which it applies; `None` for always.
    pub condition: Option<Code>,
}

/// All calculations, with their names.
#[derive(Clone, Debug, Default)]
pub struct Calculations {
    /// In the order of the JSON; selectors' calculations come last.
    pub calculations: Vec<Calculation>,
    names: HashMap<String, CalculationId>,
}

impl Calculations {
    /// The calculation that a JSON node names.
    pub(super) fn at(&self, node: &Node<'_>) -> Result<CalculationId, LoadError> {
        let found = self.names.get(node.text()?).copied();
        found.ok_or_else(|| node.refuse("there is no such calculation"))
    }

    /// Finds a calculation by name.
    pub fn find(&self, name: &str) -> Option<CalculationId> {
        self.names.get(name).copied()
    }

    /// Adds a selector's calculation, which has no name in the JSON.
    pub(super) fn add_selector(
        &mut self,
        node: &Node<'_>,
        name: String,
        headers: &Headers,
    ) -> Result<CalculationId, LoadError> {
        let calculation = read_one(node, name, headers)?;
        let id = CalculationId(self.calculations.len() as u32);
        self.calculations.push(calculation);
        Ok(id)
    }
}

/// Reads the calculations.
pub(super) fn read(root: &Node<'_>, headers: &Headers) -> Result<Calculations, LoadError> {
    let mut all = Calculations::default();
    for node in root.list("calculations")? {
        let name = node.text_of("name")?.to_owned();
        let id = CalculationId(all.calculations.len() as u32);
        all.names.insert(name.clone(), id);
        all.calculations.push(read_one(&node, name, headers)?);
    }
    Ok(all)
}

fn read_one(node: &Node<'_>, name: String, headers: &Headers) -> Result<Calculation, LoadError> {
    let mut input = Vec::new();
    for part in node.list("input")? {
        let value = || part.get("value");
        input.push(match part.text_of("type")? {
            "field" => Input::Field(headers.field_of(&value()?)?),
            "hexstr" => {
                let bits = part.number_of("bitwidth")?;
                let number = value()?.big()?;
                if bits == 0 || bits > super::headers::FIELD_BITS_MAX {
                    return Err(part.refuse("a constant of no bits, or too many"));
                }
                let mut words = vec![0; bits.div_ceil(64) as usize];
                crate::program::exact::store(&number, bits, &mut words);
                Input::Constant(left_aligned(&words, bits), bits)
            }
            "header" => Input::Header(headers.header_at(&value()?)?),
            "payload" => Input::Payload,
            other => return Err(part.refuse(format!("an input of type {other:?}"))),
        });
    }
    Ok(Calculation {
        lanes: lanes(&input, headers),
        name,
        algorithm: Algorithm::read(&node.get("algo")?)?,
        input,
    })
}

fn lanes(input: &[Input], headers: &Headers) -> Option<Box<[(u32, Lane)]>> {
    let mut lanes = Vec::new();
    for part in input {
        match part {
            Input::Field(id) if !headers.field(*id).is_varbit => {
                let valid = headers.header(headers.field(*id).header).base;
                lanes.extend(headers.lanes_of(*id).map(|lane| (valid, lane)));
            }
            Input::Header(id) => {
                let valid = headers.header(*id).base;
                lanes.extend(headers.lanes(*id)?.iter().map(|&lane| (valid, lane)));
            }
            Input::Field(_) | Input::Constant(..) | Input::Payload => return None,
        }
    }
    Some(lanes.into())
}

/// The lowest bits of the words as bytes, the first bit at the top of the first byte.
fn left_aligned(words: &[u64], bits: u32) -> Vec<u8> {
    let mut bytes = vec![0_u8; bits.div_ceil(8) as usize];
    for bit in 0..bits {
        let from_last = (bits - 1 - bit) as usize;
        let word = words[words.len() - 1 - from_last / 64];
        if word >> (from_last % 64) & 1 == 1 {
            bytes[bit as usize / 8] |= 0x80 >> (bit % 8);
        }
    }
    bytes
}

/// Reads the checksums.
pub(super) fn read_checksums(
    root: &Node<'_>,
    headers: &Headers,
    calculations: &Calculations,
) -> Result<Vec<Checksum>, LoadError> {
    let mut checksums = Vec::new();
    for node in root.list("checksums")? {
        let kind = node.get("type")?;
        if !kind.is_text("generic") {
            return Err(kind.refuse("only checksums of type \"generic\" are supported"));
        }
        let condition = node.find("if_cond").map(|condition| {
            let reader = Reader {
                headers,
                parameters: 0,
            };
            let expr = reader.read(&condition)?;
            Ok(Code::exact(expr, headers, &[]))
        });
        // Files of old versions lack the flags: both default to true.
        let flag = |key| node.find(key).map_or(Ok(true), |node| node.flag());
        checksums.push(Checksum {
            name: node.text_of("name")?.to_owned(),
            target: headers.field_of(&node.get("target")?)?,
            calculation: calculations.at(&node.get("calculation")?)?,
            is_verified: flag("verify")?,
            is_updated: flag("update")?,
            condition: condition.transpose()?,
        });
    }
    Ok(checksums)
}
