//! Collects the objects that expressions, hashes and lists of fields read.
//!
//! Where the packet decides which header is selected, all candidates count as read. The fill
//! level of a stack is no object; reading it counts as reading the validity of all elements.

use std::collections::BTreeSet;

use crate::program::Program;
use crate::program::action::AnyStack;
use crate::program::calculation::{Algorithm, Input};
use crate::program::expression::{Expr, HeaderExpr, UnionExpr};
use crate::program::headers::Headers;
use crate::program::ids::{CalculationId, FieldId, HeaderId, UnionId};

use super::objects::{ObjectId, Objects};

/// A set of objects.
pub(super) type Set = BTreeSet<ObjectId>;

/// Finds what a program's parts read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) program: &'a Program,
    pub(super) objects: &'a Objects,
}

impl<'a> Reader<'a> {
    pub(super) fn headers(&self) -> &'a Headers {
        &self.program.headers
    }

    /// Adds what an expression reads.
    pub(super) fn expr(&self, expr: &Expr, reads: &mut Set) {
        match expr {
            Expr::Constant(_) | Expr::Argument(_) => {}
            Expr::Field(field) => reads.extend(self.objects.of_field(*field)),
            Expr::FieldOf(header, index) => {
                self.choice(header, reads);
                reads.extend(self.fields_of(header, *index));
            }
            Expr::Size(stack) | Expr::LastIndex(stack) => {
                self.use_of(AnyStack::Headers(*stack), reads);
            }
            Expr::IsValid(header) => {
                self.choice(header, reads);
                let headers = self.candidates(header);
                reads.extend(headers.iter().filter_map(|one| self.validity(*one)));
            }
            Expr::IsUnionValid(union) => {
                self.union_choice(union, reads);
                for union in self.unions(union) {
                    let members = &self.headers().union(union).headers;
                    reads.extend(members.iter().filter_map(|one| self.validity(*one)));
                }
            }
            Expr::SameHeader(one, other) => {
                for header in [one, other] {
                    self.choice(header, reads);
                    self.all_of(header, reads);
                }
            }
            Expr::SameUnion(one, other) => {
                for union in [one, other] {
                    self.union_choice(union, reads);
                    self.all_of_union(union, reads);
                }
            }
            Expr::Unary(_, operand) => self.expr(operand, reads),
            Expr::Binary(_, left, right) => {
                self.expr(left, reads);
                self.expr(right, reads);
            }
            Expr::Select(condition, yes, no) => {
                for one in [condition, yes, no] {
                    self.expr(one, reads);
                }
            }
        }
    }

    /// Adds what decides which header is selected.
    pub(super) fn choice(&self, header: &HeaderExpr, reads: &mut Set) {
        match header {
            HeaderExpr::Header(_) => {}
            HeaderExpr::Element(_, index) => self.expr(index, reads),
            HeaderExpr::Last(stack) => self.use_of(AnyStack::Headers(*stack), reads),
            HeaderExpr::Member(union, _) => self.union_choice(union, reads),
        }
    }

    /// Adds what decides which union is selected.
    pub(super) fn union_choice(&self, union: &UnionExpr, reads: &mut Set) {
        match union {
            UnionExpr::Union(_) => {}
            UnionExpr::Element(_, index) => self.expr(index, reads),
            UnionExpr::Last(stack) => self.use_of(AnyStack::Unions(*stack), reads),
        }
    }

    fn use_of(&self, stack: AnyStack, reads: &mut Set) {
        let elements = self.elements(stack);
        reads.extend(elements.iter().filter_map(|one| self.validity(*one)));
    }

    /// All headers that may be selected.
    pub(super) fn candidates(&self, header: &HeaderExpr) -> Vec<HeaderId> {
        match header {
            HeaderExpr::Header(header) => vec![*header],
            HeaderExpr::Element(stack, _) | HeaderExpr::Last(stack) => {
                self.headers().stack(*stack).headers.clone()
            }
            HeaderExpr::Member(union, index) => {
                let unions = self.unions(union).into_iter();
                let member = |union| self.headers().union(union).headers[*index as usize];
                unions.map(member).collect()
            }
        }
    }

    /// All unions that may be selected.
    pub(super) fn unions(&self, union: &UnionExpr) -> Vec<UnionId> {
        match union {
            UnionExpr::Union(union) => vec![*union],
            UnionExpr::Element(stack, _) | UnionExpr::Last(stack) => {
                self.headers().union_stack(*stack).unions.clone()
            }
        }
    }

    /// All headers of a stack.
    pub(super) fn elements(&self, stack: AnyStack) -> Vec<HeaderId> {
        match stack {
            AnyStack::Headers(stack) => self.headers().stack(stack).headers.clone(),
            AnyStack::Unions(stack) => {
                let unions = self.headers().union_stack(stack).unions.iter();
                let members = unions.map(|union| &self.headers().union(*union).headers);
                members.flatten().copied().collect()
            }
        }
    }

    /// A field of each header that may be selected.
    pub(super) fn fields_of(&self, header: &HeaderExpr, index: u32) -> Set {
        let headers = self.candidates(header).into_iter();
        let fields = headers.filter_map(|one| self.headers().field_at(one, index));
        fields
            .filter_map(|field| self.objects.of_field(field))
            .collect()
    }

    /// Adds every object of each header that may be selected.
    pub(super) fn all_of(&self, header: &HeaderExpr, reads: &mut Set) {
        for header in self.candidates(header) {
            reads.extend(self.objects.of_header(self.headers(), header));
        }
    }

    /// Adds every object of each union that may be selected.
    pub(super) fn all_of_union(&self, union: &UnionExpr, reads: &mut Set) {
        for union in self.unions(union) {
            for header in &self.headers().union(union).headers {
                reads.extend(self.objects.of_header(self.headers(), *header));
            }
        }
    }

    pub(super) fn validity(&self, header: HeaderId) -> Option<ObjectId> {
        self.objects.validity(self.headers(), header)
    }

    /// Adds the fields of a list.
    pub(super) fn fields(&self, fields: &[FieldId], reads: &mut Set) {
        reads.extend(fields.iter().filter_map(|one| self.objects.of_field(*one)));
    }

    /// Adds what a calculation reads. Returns why its result cannot be remembered, if so.
    pub(super) fn calculation(&self, id: CalculationId, reads: &mut Set) -> Option<&'static str> {
        let calculation = &self.program.calculations.calculations[id.index()];
        let mut stop = match calculation.algorithm {
            Algorithm::RoundRobin | Algorithm::RoundRobinConsistent => Some("takes turns"),
            _ => None,
        };
        for input in &calculation.input {
            match input {
                Input::Constant(..) => {}
                Input::Field(field) => {
                    // The hash skips it while its header is invalid.
                    let header = self.headers().field(*field).header;
                    reads.extend(self.objects.of_field(*field));
                    reads.extend(self.validity(header));
                }
                Input::Header(header) => {
                    reads.extend(self.objects.of_header(self.headers(), *header));
                }
                Input::Payload => stop = Some("reads what follows the headers"),
            }
        }
        stop
    }
}
