//! Counters, meters, registers, and the functions of hashes with their memory.

use crate::counter::Counter;
use crate::meter::Meter;
use crate::program::Program;
use crate::program::hash::Calculator;

/// State that packets change.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    pub(crate) counters: Vec<Vec<Counter>>,
    pub(crate) meters: Vec<Vec<Meter>>,
    /// By array: all its cells in order, each with the words it needs.
    pub(crate) registers: Vec<Vec<u64>>,
    pub(crate) calculators: Vec<Calculator>,
}

impl Cells {
    pub(crate) fn new(program: &Program) -> Cells {
        let arrays = &program.arrays;
        let counters = arrays.counters.iter();
        let meters = arrays.meters.iter();
        let registers = arrays.registers.iter().map(|array| {
            let words = array.width_bits.div_ceil(64) as usize;
            vec![0; array.size as usize * words]
        });
        let calculations = program.calculations.calculations.iter();
        Cells {
            counters: counters
                .map(|array| vec![Counter::default(); array.size as usize])
                .collect(),
            meters: meters
                .map(|array| vec![Meter::default(); array.size as usize])
                .collect(),
            registers: registers.collect(),
            calculators: calculations
                .map(|one| Calculator::new(one.algorithm))
                .collect(),
        }
    }
}
