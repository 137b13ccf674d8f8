//! Compares compiled expressions with exact ones, at random.

use num_bigint::BigInt;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::*;
use crate::json::Node;
use crate::program::code::{Code, put};
use crate::program::exact::{self, Scope};
use crate::program::headers;
use crate::program::ids::{FieldId, HeaderId, StackId, UnionId, UnionStackId};

const WIDTHS: [u32; 16] = [
    1, 7, 8, 16, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 256,
];

/// Parameters of 16, 64, 128 and 200 bits.
const PARAMETERS: [(u32, u32); 4] = [(0, 1), (1, 1), (2, 2), (4, 4)];

fn some_headers() -> Headers {
    let fields = |is_signed: bool| -> Vec<Value> {
        let fields = WIDTHS
            .iter()
            .map(|width| json!([format!("f{width}"), width, is_signed]));
        fields.collect()
    };
    let header = |name: &str, id: u32, kind: &str| {
        json!({"name": name, "id": id,
        "header_type": kind, "metadata": kind.ends_with("_t")})
    };
    let value = json!({
        "header_types": [
            {"name": "u_t", "id": 0, "fields": fields(false)},
            {"name": "s_t", "id": 1, "fields": fields(true)},
            {"name": "h", "id": 2, "fields": [["a", 8, false], ["b", 24, false], ["c", 96, true]]},
        ],
        "headers": [header("u", 0, "u_t"), header("s", 1, "s_t"), header("h[0]", 2, "h"),
            header("h[1]", 3, "h"), header("h[2]", 4, "h"), header("x.a", 5, "h"),
            header("x.b", 6, "h"), header("y.a", 7, "h"), header("y.b", 8, "h")],
        "header_stacks": [{"name": "h", "id": 0, "header_type": "h", "size": 3,
            "header_ids": [2, 3, 4]}],
        "header_union_types": [{"name": "U", "id": 0, "headers": [["a", "h"], ["b", "h"]]}],
        "header_unions": [
            {"name": "x", "id": 0, "union_type": "U", "header_ids": [5, 6]},
            {"name": "y", "id": 1, "union_type": "U", "header_ids": [7, 8]}],
        "header_union_stacks": [{"name": "z", "id": 0, "union_type": "U", "size": 2,
            "header_union_ids": [0, 1]}],
    });
    headers::read(&Node::root(&value)).expect("good headers")
}

struct Chance(Pcg64Mcg);

impl Chance {
    fn number(&mut self) -> BigInt {
        let bits = *[0, 1, 4, 8, 16, 33, 64, 127, 128, 130]
            .choose(&mut self.0)
            .expect("some");
        let number = BigInt::from(self.0.random::<u128>()) * 4 + 3;
        let number: BigInt = match self.0.random_range(0..3) {
            0 => (BigInt::from(1) << bits) - 1,
            1 => BigInt::from(1) << bits,
            _ => number & ((BigInt::from(1) << bits) - 1),
        };
        if self.0.random_ratio(1, 5) {
            -number
        } else {
            number
        }
    }

    fn index(&mut self, depth: u32) -> Expr {
        match self.0.random_ratio(1, 2) {
            true => Expr::Constant(self.0.random_range(0..4).into()),
            false => self.expr(depth),
        }
    }

    fn header(&mut self, depth: u32) -> Box<HeaderExpr> {
        Box::new(match self.0.random_range(0..5) {
            0 => HeaderExpr::Header(HeaderId(self.0.random_range(2..9))),
            1 => HeaderExpr::Element(StackId(0), self.index(depth)),
            2 => HeaderExpr::Last(StackId(0)),
            3 => HeaderExpr::Member(*self.union(depth), self.0.random_range(0..2)),
            _ => HeaderExpr::Header(HeaderId(2)),
        })
    }

    fn union(&mut self, depth: u32) -> Box<UnionExpr> {
        Box::new(match self.0.random_range(0..3) {
            0 => UnionExpr::Union(UnionId(self.0.random_range(0..2))),
            1 => UnionExpr::Element(UnionStackId(0), self.index(depth)),
            _ => UnionExpr::Last(UnionStackId(0)),
        })
    }

    fn leaf(&mut self) -> Expr {
        match self.0.random_range(0..8) {
            0 => Expr::Argument(self.0.random_range(0..4)),
            1 => Expr::Constant(self.number()),
            2 => Expr::Size(StackId(0)),
            3 => Expr::LastIndex(StackId(0)),
            // The fields of both metadata headers, and their validity.
            _ => Expr::Field(FieldId(
                self.0.random_range(0..2 * (WIDTHS.len() as u32 + 1)),
            )),
        }
    }

    // One match, with an arm for each kind of expression.
    fn expr(&mut self, depth: u32) -> Expr {
        if depth == 0 {
            return self.leaf();
        }
        let depth = depth - 1;
        match self.0.random_range(0..20) {
            0 => Expr::FieldOf(self.header(depth), self.0.random_range(0..3)),
            1 => Expr::IsValid(self.header(depth)),
            2 => Expr::IsUnionValid(self.union(depth)),
            3 => Expr::SameHeader(self.header(depth), self.header(depth)),
            4 => Expr::SameUnion(self.union(depth), self.union(depth)),
            5 => {
                let unary = [Unary::Complement, Unary::Not, Unary::ToBool];
                let unary = *unary.choose(&mut self.0).expect("some");
                Expr::Unary(unary, Box::new(self.expr(depth)))
            }
            6 => {
                let condition = Box::new(self.expr(depth));
                let yes = Box::new(self.expr(depth));
                Expr::Select(condition, yes, Box::new(self.expr(depth)))
            }
            7 | 8 => {
                let casts = [
                    Binary::TwosComplement,
                    Binary::Saturate,
                    Binary::SaturateSigned,
                ];
                let cast = *casts.choose(&mut self.0).expect("some");
                let width = Expr::Constant(self.0.random_range(1..140).into());
                Expr::Binary(cast, Box::new(self.expr(depth)), Box::new(width))
            }
            9 | 10 => {
                let shifts = [Binary::ShiftLeft, Binary::ShiftRight];
                let shift = *shifts.choose(&mut self.0).expect("some");
                let amount = match self.0.random_ratio(2, 3) {
                    true => Expr::Constant(self.0.random_range(0..200).into()),
                    false => self.expr(0),
                };
                Expr::Binary(shift, Box::new(self.expr(depth)), Box::new(amount))
            }
            11 | 12 => {
                let bits = *WIDTHS.choose(&mut self.0).expect("some");
                let mask = Expr::Constant((BigInt::from(1) << bits) - 1);
                Expr::Binary(Binary::And, Box::new(self.expr(depth)), Box::new(mask))
            }
            _ => {
                let all = [
                    Binary::Add,
                    Binary::Subtract,
                    Binary::Multiply,
                    Binary::Divide,
                    Binary::Remainder,
                    Binary::And,
                    Binary::Or,
                    Binary::Xor,
                    Binary::Equal,
                    Binary::NotEqual,
                    Binary::Less,
                    Binary::LessOrEqual,
                    Binary::Greater,
                    Binary::GreaterOrEqual,
                    Binary::BothTrue,
                    Binary::EitherTrue,
                ];
                let binary = *all.choose(&mut self.0).expect("some");
                Expr::Binary(
                    binary,
                    Box::new(self.expr(depth)),
                    Box::new(self.expr(depth)),
                )
            }
        }
    }

    /// A frame as packets may leave it: invariants 1 and 3 of the frame hold.
    fn words(&mut self, headers: &Headers) -> Vec<u64> {
        let mut words = headers.initial.clone();
        for field in &headers.fields {
            let number = self.number();
            exact::store(&number, field.width_bits, &mut words[exact::range(field)]);
        }
        for header in headers.headers.iter().filter(|header| header.is_metadata) {
            words[header.base as usize] = 1;
        }
        for union in &headers.unions {
            let valid = self.0.random_range(0..3);
            for (index, &member) in union.headers.iter().enumerate() {
                words[headers.header(member).base as usize] = u64::from(index == valid);
            }
        }
        if self.0.random_ratio(1, 3) {
            let (one, other) = (headers.header(HeaderId(5)), headers.header(HeaderId(7)));
            let block = one.base as usize..(one.base + one.words) as usize;
            words.copy_within(block, other.base as usize);
            words[headers.header(HeaderId(8)).base as usize] = 0;
        }
        words[headers.stacks[0].next_word as usize] = self.0.random_range(0..=3);
        words[headers.union_stacks[0].next_word as usize] = self.0.random_range(0..=2);
        words
    }
}

/// Flips bits that were not examined: the value must stay.
#[test]
fn bits_that_were_not_examined_do_not_matter() {
    let headers = some_headers();
    let mut chance = Chance(Pcg64Mcg::seed_from_u64(7));
    let (mut changed, mut less) = (0, 0);
    for _ in 0..30_000 {
        let depth = chance.0.random_range(1..5);
        let expr = chance.expr(depth);
        let mut words = chance.words(&headers);
        let code = Code::exact(expr.clone(), &headers, &PARAMETERS);
        fn scope<'a>(headers: &'a Headers, words: &'a [u64]) -> Scope<'a> {
            Scope {
                headers,
                words,
                arguments: &[7; 8],
                parameters: &PARAMETERS,
            }
        }
        let mut seen = Vec::new();
        let Some(was_true) = code.examine_truth(&scope(&headers, &words), &mut seen) else {
            continue;
        };
        assert_eq!(code.is_true(&scope(&headers, &words)), was_true, "{expr:?}");
        let mut examined = vec![0; words.len()];
        for (word, bits) in seen {
            examined[word as usize] |= bits;
        }
        let before = words.clone();
        for _ in 0..6 {
            let other = chance.words(&headers);
            for (index, word) in words.iter_mut().enumerate() {
                *word = before[index] & examined[index] | other[index] & !examined[index];
            }
            changed += u32::from(words != before);
            assert_eq!(
                code.is_true(&scope(&headers, &words)),
                was_true,
                "{expr:?} {examined:x?}"
            );
        }
        less += u32::from(examined.iter().all(|&bits| bits == 0 || bits != u64::MAX));
    }
    assert!(changed > 50_000 && less > 5_000, "{changed} {less}");
}

#[test]
fn compiled_expressions_are_exact() {
    let headers = some_headers();
    let mut chance = Chance(Pcg64Mcg::seed_from_u64(5));
    let (mut exactly, mut low, mut wide) = (0, 0, 0);
    for _ in 0..60_000 {
        let depth = chance.0.random_range(1..5);
        let expr = chance.expr(depth);
        let words = chance.words(&headers);
        let mut arguments = [0; 8];
        for (word, mask) in arguments
            .iter_mut()
            .zip([0xffff, !0, !0, !0, 0xff, !0, !0, !0])
        {
            *word = chance.0.random::<u64>() & mask;
        }
        let scope = Scope {
            headers: &headers,
            words: &words,
            arguments: &arguments,
            parameters: &PARAMETERS,
        };
        let registers = Registers {
            words: &words,
            arguments: &arguments,
        };
        let expected = scope.evaluate(&expr);
        let mut expected_low = [0; 2];
        exact::store(&expected, 128, &mut expected_low);
        if let Some(narrow) = compile(&expr, &headers, &PARAMETERS, Need::LowBits) {
            let mut found = [0; 2];
            put(narrow.evaluate(&registers), &mut found, 128);
            assert_eq!(found, expected_low, "{expr:?}\n{narrow:?}");
            low += 1;
        } else {
            wide += 1;
        }
        if let Some(narrow) = compile(&expr, &headers, &PARAMETERS, Need::Exact) {
            let number = narrow.evaluate(&registers);
            let is_exact = expected == number.into() || expected == (number as u128).into();
            assert!(is_exact, "{number} is not {expected}: {expr:?}\n{narrow:?}");
            exactly += 1;
        }
        let code = Code::exact(expr.clone(), &headers, &PARAMETERS);
        let is_true = expected != BigInt::ZERO;
        assert_eq!(code.is_true(&scope), is_true, "{expr:?}");
        // A value that does not fit or is negative is an index past every end.
        let index = code.index(&scope);
        let expected_index = u64::try_from(&expected).unwrap_or(u64::MAX);
        assert_eq!(index, expected_index, "{expr:?}");
        let width = *WIDTHS.choose(&mut chance.0).expect("some");
        let count = width.div_ceil(64) as usize;
        let (mut stored, mut should) = (vec![7; count], vec![0; count]);
        let code = Code::stored(expr.clone(), width, &headers, &PARAMETERS);
        code.value(&scope).put(&mut stored, width);
        exact::store(&expected, width, &mut should);
        assert_eq!(stored, should, "{width} bits of {expr:?}");
    }
    // The test would be pointless if nothing, or everything, were compiled.
    assert!(
        exactly > 20_000 && low > exactly && wide > 5_000,
        "{exactly} {low} {wide}"
    );
}
