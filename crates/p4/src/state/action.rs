//! Actions with their data, as stored in entries.

use num_bigint::{BigInt, BigUint};

use crate::program::Program;
use crate::program::exact;
use crate::program::ids::ActionId;

use super::error::WriteError;
use super::update::ActionCall;

/// An action and its data, packed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    pub(crate) action: ActionId,
    pub(crate) data: Box<[u64]>,
}

/// What an entry leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Action(Bound),
    Member(u32),
    Group(u32),
    /// Actions with weights, and the index of each action once per unit of weight.
    OneShot(Vec<(Bound, u32)>, Vec<u32>),
}

impl Bound {
    /// Checks and packs the data of an action.
    pub(crate) fn new(program: &Program, call: &ActionCall) -> Result<Bound, WriteError> {
        let action = program.action(call.action);
        if call.data.len() != action.parameters.len() {
            return Err(WriteError::InvalidArgument(format!(
                "the action {} takes {} parameters, not {}",
                action.name,
                action.parameters.len(),
                call.data.len()
            )));
        }
        let mut data = vec![0; action.data_words as usize];
        for ((parameter, &(first, words)), number) in
            action.parameters.iter().zip(&action.places).zip(&call.data)
        {
            if number.bits() > u64::from(parameter.width_bits) {
                return Err(WriteError::OutOfRange(format!(
                    "{number} does not fit into the {} bits of {} of {}",
                    parameter.width_bits, parameter.name, action.name
                )));
            }
            let words = &mut data[first as usize..(first + words) as usize];
            exact::store(&BigInt::from(number.clone()), parameter.width_bits, words);
        }
        Ok(Bound {
            action: call.action,
            data: data.into(),
        })
    }

    /// The action with its data as numbers.
    pub fn call(&self, program: &Program) -> ActionCall {
        let places = &program.action(self.action).places;
        let data = places.iter().map(|&(first, words)| {
            let number = exact::unsigned(&self.data[first as usize..(first + words) as usize]);
            BigUint::try_from(number).expect("words are not negative")
        });
        ActionCall {
            action: self.action,
            data: data.collect(),
        }
    }
}
