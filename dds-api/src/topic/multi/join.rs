//! The samples of several topics, joined by the members that they have in common.
//!
//! ```text
//!   a topic's instance ──last sample──> row of the topic's table ──with matching rows──>
//!       samples of the multi-topic
//! ```
//! Owns: the tables, and the decision which rows match. Never does: know where samples come from,
//! or check whether one satisfies a condition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use idl_cdr::ValueRef;
use idl_xtypes::{DataError, DynamicData, DynamicType, Value};

/// Identifier of an instance of a topic.
pub(crate) type RowKey = u128;

/// The constant properties of a multi-topic.
#[derive(Debug)]
pub(crate) struct JoinPlan {
    /// The members that topics have in common.
    pub(super) common: Vec<String>,
    /// For each topic, the indices of the common members that it has.
    pub(super) tables: Vec<BTreeSet<usize>>,
    /// For each member of the result: the topic, the member in that topic, and the name in
    /// the result.
    pub(super) columns: Vec<(usize, String, String)>,
    /// The type of the multi-topic's samples.
    pub(super) result: DynamicType,
}

/// A value by which rows are joined.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum JoinValue {
    Whole(i128),
    /// The bits of a 64-bit floating-point number. Zero has no sign.
    Number(u64),
    Text(String),
}

impl JoinValue {
    /// The value in comparable form; `None` if it is absent or equals no other value.
    fn of(value: &Value) -> Option<JoinValue> {
        let number =
            |value: f64| (!value.is_nan()).then(|| JoinValue::Number((value + 0.0).to_bits()));
        Some(match idl_cdr::Reflect::value(value) {
            ValueRef::Bool(value) => JoinValue::Whole(value.into()),
            ValueRef::Signed(value) => JoinValue::Whole(value.into()),
            ValueRef::Unsigned(value) | ValueRef::Bitmask(value) => JoinValue::Whole(value.into()),
            ValueRef::Enumerator { value, .. } => JoinValue::Whole(value.into()),
            ValueRef::Char(value) => JoinValue::Text(value.into()),
            ValueRef::WideChar(value) => JoinValue::Text(char::from(value).into()),
            ValueRef::Text(text) => JoinValue::Text(text.to_owned()),
            ValueRef::Float(value) => number(value.into())?,
            ValueRef::Double(value) => number(value)?,
            _ => return None,
        })
    }
}

/// The last samples of a topic's instances that are alive.
#[derive(Default)]
struct JoinTable {
    rows: BTreeMap<RowKey, DynamicData>,
    /// Index of the rows by their common members.
    index: BTreeMap<usize, BTreeMap<JoinValue, BTreeSet<RowKey>>>,
}

/// Change of a multi-topic's samples.
#[derive(Debug, PartialEq)]
pub(crate) enum JoinChange {
    /// A new or changed sample.
    Updated(DynamicData),
    /// The instance with this sample's key is over.
    Disposed(DynamicData),
}

/// See the [module](self).
pub(crate) struct Join {
    plan: Arc<JoinPlan>,
    tables: Vec<JoinTable>,
    /// Number of combinations of rows that make each instance.
    made: BTreeMap<[u8; 16], usize>,
}

impl Join {
    pub(crate) fn new(plan: &Arc<JoinPlan>) -> Join {
        let tables = plan.tables.iter().map(|_| JoinTable::default()).collect();
        Join { plan: Arc::clone(plan), tables, made: BTreeMap::new() }
    }

    /// Sets the last sample of a topic's instance.
    pub(crate) fn put(
        &mut self,
        table: usize,
        row: RowKey,
        sample: DynamicData,
    ) -> Result<Vec<JoinChange>, DataError> {
        let removed = self.take_out(table, row)?;
        self.enter(table, row, sample);
        let there = self.all_with(table, row)?;
        let mut changes = Vec::new();
        for sample in &there {
            *self.made.entry(sample.key_hash()?).or_default() += 1;
        }
        // Counted before: an instance that is made again is not reported as over.
        changes.extend(self.uncount(removed)?);
        changes.extend(there.into_iter().map(JoinChange::Updated));
        Ok(changes)
    }

    /// Removes an instance of a topic that is over.
    pub(crate) fn remove(
        &mut self,
        table: usize,
        row: RowKey,
    ) -> Result<Vec<JoinChange>, DataError> {
        let removed = self.take_out(table, row)?;
        self.uncount(removed)
    }

    /// Uncounts samples that are no longer made. Reports the instances that are over with them.
    fn uncount(&mut self, removed: Vec<DynamicData>) -> Result<Vec<JoinChange>, DataError> {
        let mut changes = Vec::new();
        for sample in removed {
            let key = sample.key_hash()?;
            let left = self.made.get_mut(&key).map_or(0, |made| {
                *made -= 1;
                *made
            });
            if left == 0 && self.made.remove(&key).is_some() {
                changes.push(JoinChange::Disposed(sample));
            }
        }
        Ok(changes)
    }

    fn enter(&mut self, table: usize, row: RowKey, sample: DynamicData) {
        let table_of = &mut self.tables[table];
        for &common in &self.plan.tables[table] {
            if let Some(value) = self.plan.value(common, &sample) {
                let by = table_of.index.entry(common).or_default();
                by.entry(value).or_default().insert(row);
            }
        }
        table_of.rows.insert(row, sample);
    }

    /// Removes a row, and returns the samples that it had made.
    fn take_out(&mut self, table: usize, row: RowKey) -> Result<Vec<DynamicData>, DataError> {
        let made = self.all_with(table, row)?;
        let table_of = &mut self.tables[table];
        if let Some(sample) = table_of.rows.remove(&row) {
            for &common in &self.plan.tables[table] {
                let Some(value) = self.plan.value(common, &sample) else { continue };
                if let Some(by) = table_of.index.get_mut(&common)
                    && let Some(rows) = by.get_mut(&value)
                {
                    rows.remove(&row);
                    if rows.is_empty() {
                        by.remove(&value);
                    }
                }
            }
        }
        Ok(made)
    }

    /// All samples that this row makes with matching rows of the other topics.
    fn all_with(&self, table: usize, row: RowKey) -> Result<Vec<DynamicData>, DataError> {
        let Some(sample) = self.tables[table].rows.get(&row) else { return Ok(Vec::new()) };
        let mut chosen = vec![None; self.tables.len()];
        let mut found = Vec::new();
        if let Some(bound) = self.agree(table, sample, &BTreeMap::new()) {
            chosen[table] = Some(sample);
            self.choose(&mut chosen, &bound, &mut found)?;
        }
        Ok(found)
    }

    /// The values of the common members if this row is added to those already `bound`; `None` if
    /// they do not match.
    fn agree(
        &self,
        table: usize,
        sample: &DynamicData,
        bound: &BTreeMap<usize, JoinValue>,
    ) -> Option<BTreeMap<usize, JoinValue>> {
        let mut all = bound.clone();
        for &common in &self.plan.tables[table] {
            let value = self.plan.value(common, sample)?;
            if *all.entry(common).or_insert_with(|| value.clone()) != value {
                return None;
            }
        }
        Some(all)
    }

    /// Chooses rows of the remaining topics in all possible ways, and makes a sample of
    /// each combination.
    fn choose<'a>(
        &'a self,
        chosen: &mut Vec<Option<&'a DynamicData>>,
        bound: &BTreeMap<usize, JoinValue>,
        found: &mut Vec<DynamicData>,
    ) -> Result<(), DataError> {
        let free = || (0..chosen.len()).filter(|table| chosen[*table].is_none());
        let has_bound =
            |table: &usize| self.plan.tables[*table].iter().any(|it| bound.contains_key(it));
        let Some(table) = free().find(has_bound).or_else(|| free().next()) else {
            found.push(self.plan.make(chosen)?);
            return Ok(());
        };
        let table_of = &self.tables[table];
        let by = |common: &usize| {
            let value = bound.get(common)?;
            Some(table_of.index.get(common).and_then(|by| by.get(value)))
        };
        let smallest = self.plan.tables[table].iter().filter_map(by);
        let smallest = smallest.min_by_key(|rows| rows.map_or(0, BTreeSet::len));
        let rows: Vec<RowKey> = match smallest {
            Some(rows) => rows.into_iter().flatten().copied().collect(),
            // No common member is bound: every row matches.
            None => table_of.rows.keys().copied().collect(),
        };
        for row in rows {
            let sample = &table_of.rows[&row];
            if let Some(bound) = self.agree(table, sample, bound) {
                chosen[table] = Some(sample);
                self.choose(chosen, &bound, found)?;
                chosen[table] = None;
            }
        }
        Ok(())
    }
}

impl JoinPlan {
    fn value(&self, common: usize, sample: &DynamicData) -> Option<JoinValue> {
        JoinValue::of(sample.get_value(&self.common[common]).ok()?)
    }

    /// Makes the sample of one row of each topic.
    fn make(&self, rows: &[Option<&DynamicData>]) -> Result<DynamicData, DataError> {
        let mut made = DynamicData::new(&self.result);
        for (table, path, name) in &self.columns {
            let Some(row) = rows[*table] else { continue };
            made.set(name, row.get_value(path)?.clone())?;
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use idl_cdr::Extensibility;
    use idl_xtypes::{MemberOptions, Primitive, StructBuilder};

    use super::*;

    fn of(name: &str, members: &[(&str, bool)]) -> DynamicType {
        let number = DynamicType::primitive(Primitive::Int32);
        let of = StructBuilder::new(name, Extensibility::Final);
        let of = members.iter().fold(of, |of, (name, key)| {
            of.member(name, &number, MemberOptions { key: *key, ..MemberOptions::default() })
        });
        of.build().expect("type is valid")
    }

    fn sample(of: &DynamicType, values: &[i64]) -> DynamicData {
        let mut sample = DynamicData::new(of);
        for (name, value) in of.member_names().iter().zip(values) {
            sample.set(name, Value::Signed(*value)).expect("member is a number");
        }
        sample
    }

    fn numbers(sample: &DynamicData) -> Vec<i64> {
        let Value::Structure(members) = sample.whole() else { return Vec::new() };
        let number = |value: &Value| if let Value::Signed(number) = value { *number } else { 0 };
        members.iter().map(number).collect()
    }

    /// Three topics: the first two have `a` in common, the last two `b`. The result has the
    /// key `a`.
    #[test]
    fn join_agrees_with_nested_loops() {
        let types = [
            of("A", &[("id", true), ("a", false)]),
            of("B", &[("key", true), ("a", false), ("b", false)]),
            of("C", &[("b", true), ("c", false)]),
        ];
        let result = of("R", &[("a", true), ("b", false), ("c", false), ("id", false)]);
        let column = |table: usize, name: &str| (table, name.to_owned(), name.to_owned());
        let plan = Arc::new(JoinPlan {
            common: vec!["a".to_owned(), "b".to_owned()],
            tables: vec![[0].into(), [0, 1].into(), [1].into()],
            columns: vec![column(0, "a"), column(1, "b"), column(2, "c"), column(0, "id")],
            result,
        });
        let mut join = Join::new(&plan);
        // The rows of each table.
        let mut rows: [BTreeMap<RowKey, Vec<i64>>; 3] = Default::default();
        let all = |rows: &[BTreeMap<RowKey, Vec<i64>>; 3]| {
            let mut made = Vec::new();
            for a in rows[0].values() {
                for b in rows[1].values().filter(|b| b[1] == a[1]) {
                    for c in rows[2].values().filter(|c| c[0] == b[2]) {
                        made.push(vec![a[1], b[2], c[1], a[0]]);
                    }
                }
            }
            made.sort();
            made
        };
        let mut seed = 7_u64;
        let mut roll = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut made_in_all, mut over_in_all) = (0, 0);
        for _ in 0..4000 {
            let (table, row) = (roll(3) as usize, RowKey::from(roll(6)));
            let before = all(&rows);
            let changes = if roll(4) == 0 {
                rows[table].remove(&row);
                join.remove(table, row)
            } else {
                let values = [row as i64, roll(3) as i64, roll(3) as i64];
                rows[table].insert(row, values.to_vec());
                join.put(table, row, sample(&types[table], &values))
            };
            let changes = changes.expect("types of the tables and the result agree");
            let after = all(&rows);
            // The reported samples are those that are made with this row.
            let mut with = rows.clone();
            with[table].retain(|it, _| *it == row);
            let updated = |changes: &JoinChange| {
                if let JoinChange::Updated(made) = changes { Some(numbers(made)) } else { None }
            };
            let mut is: Vec<_> = changes.iter().filter_map(updated).collect();
            is.sort();
            assert_eq!(is, all(&with));
            // The instances reported as over are those that were made before, and are no more.
            let keys = |made: &[Vec<i64>]| made.iter().map(|it| it[0]).collect::<BTreeSet<i64>>();
            let over = |changes: &JoinChange| {
                if let JoinChange::Disposed(made) = changes { Some(numbers(made)[0]) } else { None }
            };
            let over: Vec<i64> = changes.iter().filter_map(over).collect();
            let expected: Vec<i64> = keys(&before).difference(&keys(&after)).copied().collect();
            assert_eq!(
                over.iter().copied().collect::<BTreeSet<i64>>(),
                expected.iter().copied().collect()
            );
            assert_eq!(over.len(), expected.len(), "each ended instance is reported once");
            (made_in_all, over_in_all) = (made_in_all + is.len(), over_in_all + over.len());
        }
        assert!(made_in_all > 1000 && over_in_all > 100, "{made_in_all} and {over_in_all}");
    }
}
