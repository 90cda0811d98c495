//! Predicates and triggers.
//!
//! Owns: the registered predicates, and when each trigger fires. Never does: touch a link or
//! a clock.
//!
//! Each evaluation takes every predicate once, in the order of registration. A true predicate fires
//! its triggers in their order, at once, so a later predicate sees what an earlier trigger did.
//! Predicates that triggers add take part from the next evaluation on.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::layout::{Cell, Column, TableRow};
use super::table::Table;
use crate::machine::Effects;

/// Condition under which a predicate fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FireCondition {
    /// The first time that it is true; the predicate is then removed.
    Once,
    /// Every time that it evaluates to true.
    Always,
    /// When it becomes true after it was false or never evaluated.
    OnTransition,
}

/// Identifier of a registered predicate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PredicateId(u64);

type Test<R> = Box<dyn FnMut(&Table<R>) -> bool + Send>;
type Trigger<R> = Box<dyn FnMut(&mut Scope<'_, R>) + Send>;

struct PredicateEntry<R: TableRow> {
    id: PredicateId,
    fire: FireCondition,
    was_true: bool,
    test: Test<R>,
    triggers: Vec<Trigger<R>>,
}

/// Access of a trigger: it may read the table, change and push the own row, register and remove
/// predicates. A scope dereferences to the [`Table`].
pub struct Scope<'a, R: TableRow> {
    table: &'a mut Table<R>,
    next: &'a mut u64,
    added: &'a mut Vec<PredicateEntry<R>>,
    removed: &'a mut Vec<PredicateId>,
}

impl<R: TableRow> core::ops::Deref for Scope<'_, R> {
    type Target = Table<R>;
    fn deref(&self) -> &Table<R> {
        self.table
    }
}

impl<R: TableRow> core::ops::DerefMut for Scope<'_, R> {
    fn deref_mut(&mut self) -> &mut Table<R> {
        self.table
    }
}

impl<R: TableRow> Scope<'_, R> {
    /// Registers a predicate with one trigger.
    pub fn when(
        &mut self,
        fire: FireCondition,
        test: impl FnMut(&Table<R>) -> bool + Send + 'static,
        trigger: impl FnMut(&mut Scope<'_, R>) + Send + 'static,
    ) -> PredicateId {
        let id = PredicateId(*self.next);
        *self.next += 1;
        let triggers: Vec<Trigger<R>> = alloc::vec![Box::new(trigger)];
        self.added.push(PredicateEntry {
            id,
            fire,
            was_true: false,
            test: Box::new(test),
            triggers,
        });
        id
    }

    /// Adds a further trigger to a predicate that was registered in this scope. The trigger runs
    /// after the predicate's existing ones. Returns whether there is such a predicate.
    pub fn also(
        &mut self,
        predicate: PredicateId,
        trigger: impl FnMut(&mut Scope<'_, R>) + Send + 'static,
    ) -> bool {
        match self.added.iter_mut().find(|entry| entry.id == predicate) {
            Some(entry) => {
                entry.triggers.push(Box::new(trigger));
                true
            }
            None => false,
        }
    }

    /// Removes a predicate, which does not fire again. Removing it twice does nothing.
    pub fn remove(&mut self, predicate: PredicateId) {
        self.removed.push(predicate);
    }

    /// Keeps the value of a function of the table in a column of the own row: the value is stored
    /// and pushed whenever it changes. A reduction thus becomes a cell that others can reduce
    /// again, as in "everyone knows that everyone knows".
    pub fn keep<C: Cell + PartialEq>(
        &mut self,
        column: Column<R, C>,
        function: impl Fn(&Table<R>) -> C + Send + Clone + 'static,
    ) -> PredicateId {
        let value = function.clone();
        self.when(
            FireCondition::Always,
            move |table| table.get(table.me(), column) != function(table),
            move |scope| {
                let new = value(scope);
                scope.publish(column, new);
            },
        )
    }
}

/// Registered predicates of one table.
pub(super) struct Predicates<R: TableRow> {
    entries: Vec<PredicateEntry<R>>,
    added: Vec<PredicateEntry<R>>,
    removed: Vec<PredicateId>,
    next: u64,
}

impl<R: TableRow> Predicates<R> {
    pub(super) fn new() -> Self {
        Predicates { entries: Vec::new(), added: Vec::new(), removed: Vec::new(), next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Runs a function with the access of a trigger.
    pub(super) fn scope<T>(
        &mut self,
        table: &mut Table<R>,
        f: impl FnOnce(&mut Scope<'_, R>) -> T,
    ) -> T {
        let Predicates { added, removed, next, .. } = self;
        table.forget_looks();
        let result = f(&mut Scope { table, next, added, removed });
        self.settle();
        result
    }

    /// Evaluates each predicate once and fires those that are due. Returns how many fired.
    pub(super) fn evaluate(&mut self, table: &mut Table<R>, effects: &mut Effects) -> usize {
        let Predicates { entries, added, removed, next } = self;
        table.forget_looks();
        let mut fired = 0;
        for entry in entries.iter_mut() {
            if !removed.is_empty() && removed.contains(&entry.id) {
                continue;
            }
            let holds = (entry.test)(table);
            let due = holds && !(entry.fire == FireCondition::OnTransition && entry.was_true);
            entry.was_true = holds;
            effects.work().predicates += 1;
            table.add_work(effects.work());
            if !due {
                continue;
            }
            fired += 1;
            effects.work().triggers += entry.triggers.len() as u64;
            for trigger in &mut entry.triggers {
                trigger(&mut Scope { table, next, added, removed });
            }
            if entry.fire == FireCondition::Once {
                removed.push(entry.id);
            }
            table.flush(effects);
        }
        self.settle();
        fired
    }

    fn settle(&mut self) {
        self.entries.append(&mut self.added);
        if !self.removed.is_empty() {
            let removed = core::mem::take(&mut self.removed);
            self.entries.retain(|entry| !removed.contains(&entry.id));
        }
    }
}
