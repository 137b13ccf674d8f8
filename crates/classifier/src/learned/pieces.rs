//! Linear pieces under a radix tree: a model that is quick to build.
//!
//! ```text
//!   cell of a tree node:  bits = number >> shift & mask
//!       inner:  go on at cell `base + bits`
//!       leaf:   the window begins at place  base + (bits * slope >> 32)
//! ```
//!
//! A node divides its numbers by their next few bits. A cell becomes a leaf as soon as a line
//! through its places is good enough. Otherwise, where numbers are dense, it gets its own
//! node. So it is a learned index like PLEX (Stoian et al., *Towards practical learned
//! indexing*, 2021: a spline under a histogram tree). But each piece of the line lies in a
//! cell of the tree, so no search among pieces is needed. All arithmetic is on integers.
//!
//! The bound: within a cell `bits` never falls as the number rises, and no slope is negative,
//! so the line never falls. A place has a range of numbers. The line's error is greatest at
//! the two ends of that range, and both are tried for every place.
//!
//! Costs: a load for each of two or three levels; 12 bytes per cell.

use super::number::Number;

/// The wanted length of a leaf's windows.
const WINDOW_WANTED: i64 = 8;
/// The most bits of a node; next, the most levels of the tree.
const NODE_BITS_MAX: u32 = 12;
const LEVELS_MAX: u32 = 24;
/// The number of places for each cell of a node, as a power of two.
const PLACES_PER_CELL_LOG: u32 = 2;

/// The model.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    cells: Vec<Cell>,
    root: Cell,
    window: u32,
    /// The first place of the last window.
    last: i32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// For an inner cell the node's first cell; for a leaf the place at zero bits.
    base: i32,
    slope: u32,
    shift: u8,
    /// The number of bits taken, at most 32.
    width: u8,
    is_leaf: bool,
}

impl Cell {
    #[inline(always)]
    fn bits<N: Number>(&self, number: N) -> u32 {
        let mask = (1u64 << self.width) - 1;
        (number.bits_from(self.shift.into()) & mask) as u32
    }

    #[inline(always)]
    fn place<N: Number>(&self, number: N) -> i32 {
        let rise = (u64::from(self.bits(number)) * u64::from(self.slope)) >> 32;
        self.base.wrapping_add(rise as i32)
    }
}

/// The numbers of a cell: those from `low` on that differ only in the last `bits` bits.
#[derive(Clone, Copy)]
struct Region {
    low: u128,
    bits: u32,
}

impl Region {
    fn high(self) -> u128 {
        self.low | u128::MAX.checked_shr(128 - self.bits).unwrap_or(0)
    }
}

impl Pieces {
    /// Builds a model of `starts`, whose first is zero, for numbers of `bits` bits.
    pub(super) fn new<N: Number>(starts: &[N], bits: u32) -> Pieces {
        let mut builder = Builder {
            starts,
            cells: Vec::new(),
            window: 1,
        };
        let region = Region { low: 0, bits };
        let root = builder.cell(region, 0, starts.len(), 0);
        let window = (builder.window as usize).min(starts.len());
        builder.cells.shrink_to_fit();
        Pieces {
            cells: builder.cells,
            root,
            window: window as u32,
            last: (starts.len() - window) as i32,
        }
    }

    #[inline(always)]
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// The first place of a number's window.
    #[inline(always)]
    pub(super) fn predict<N: Number>(&self, number: N) -> u32 {
        let mut cell = &self.root;
        while !cell.is_leaf {
            cell = &self.cells[cell.base as usize + cell.bits(number) as usize];
        }
        cell.place(number).clamp(0, self.last) as u32
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>()
    }
}

struct Builder<'a, N> {
    starts: &'a [N],
    cells: Vec<Cell>,
    /// The longest window of any leaf.
    window: i64,
}

impl<N: Number> Builder<'_, N> {
    /// The cell of a region whose starts are `from..to`.
    fn cell(&mut self, region: Region, from: usize, to: usize, level: u32) -> Cell {
        let (leaf, window) = self.leaf(region, from, to);
        if window <= WINDOW_WANTED.max(self.window / 2) || region.bits == 0 || level == LEVELS_MAX {
            self.window = self.window.max(window);
            return leaf;
        }
        let wanted = (to - from).ilog2().saturating_sub(PLACES_PER_CELL_LOG);
        let node_bits = wanted.clamp(1, NODE_BITS_MAX).min(region.bits);
        let below = region.bits - node_bits;
        let base = self.cells.len();
        self.cells.resize(base + (1 << node_bits), Cell::default());
        let mut start = from;
        for index in 0..1 << node_bits {
            let child = Region {
                low: region.low | (index as u128) << below,
                bits: below,
            };
            let high = child.high();
            let count = self.starts[start..to].partition_point(|other| other.to_wide() <= high);
            let cell = self.cell(child, start, start + count, level + 1);
            self.cells[base + index] = cell;
            start += count;
        }
        Cell {
            base: base as i32,
            slope: 0,
            shift: below as u8,
            width: node_bits as u8,
            is_leaf: false,
        }
    }

    /// The better of two lines for a region, and the length of its windows.
    fn leaf(&self, region: Region, from: usize, to: usize) -> (Cell, i64) {
        // The highest bits of the region that fit.
        let bits = region.bits.min(32);
        let flat = Cell {
            base: 0,
            slope: 0,
            width: bits as u8,
            // A region without bits has nothing to shift.
            shift: (region.bits - bits).min(N::BITS - 1) as u8,
            is_leaf: true,
        };
        let count = to - from;
        let mut best = self.bounded(flat, region, from, to);
        if count < 2 || best.1 <= 2 {
            return best;
        }
        let first = flat.bits(self.starts[from]);
        let last = flat.bits(self.starts[to - 1]);
        let lines = [
            (count as u64, 1u64 << bits),
            (count as u64 - 1, u64::from(last - first)),
        ];
        for (rise, run) in lines.into_iter().filter(|(_, run)| *run > 0) {
            let slope = ((rise << 32) / run).min(u32::MAX.into()) as u32;
            let line = self.bounded(Cell { slope, ..flat }, region, from, to);
            if line.1 < best.1 {
                best = line;
            }
        }
        best
    }

    /// Moves a line so that its windows have every place of the region; returns their length.
    fn bounded(&self, cell: Cell, region: Region, from: usize, to: usize) -> (Cell, i64) {
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        let mut try_at = |place: usize, number: u128| {
            let line = i64::from(cell.place(N::from_wide(number)));
            let distance = place as i64 - line;
            least = least.min(distance);
            greatest = greatest.max(distance);
        };
        // The place before the first start has the numbers before it.
        let first = self.starts.get(from).map(|start| start.to_wide());
        if from == to || first != Some(region.low) {
            try_at(from - 1, region.low);
            let end = if from == to {
                region.high()
            } else {
                first.unwrap_or(1) - 1
            };
            try_at(from - 1, end);
        }
        for place in from..to {
            try_at(place, self.starts[place].to_wide());
            let is_last = place + 1 == to;
            let end = if is_last {
                region.high()
            } else {
                self.starts[place + 1].to_wide() - 1
            };
            try_at(place, end);
        }
        let cell = Cell {
            base: least as i32,
            ..cell
        };
        (cell, greatest - least + 1)
    }
}
