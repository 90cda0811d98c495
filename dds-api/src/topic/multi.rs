//! Multi-topics: topics whose samples are composed of samples of other topics.
//!
//! Owns: the constituents of a multi-topic, checked once. Never does: join samples; [`join`] does,
//! for each reader.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use dds_sql::{ExpressionError, Filter, Selection};
use idl_xtypes::{DynamicData, DynamicType, Primitive, TopicData, TypeConsistency, ValueKind};

use self::join::JoinPlan;
use super::Topic;
use super::entity::{TopicEntity, TopicOrigin};
use super::filtered::{SharedFilter, TopicDescription, expression_error};
use crate::domain::{DomainParticipant, ParticipantInner};
use crate::infrastructure::{DdsError, DdsResult};

pub(crate) mod join;

/// A topic whose samples are composed of samples of other topics of its participant. It is made by
/// [`DomainParticipant::multi_topic`](crate::domain::DomainParticipant::multi_topic). Clones are
/// handles on the same multi-topic.
///
/// The expression selects the members of the samples, the topics that they come from, and
/// a condition:
/// ```text
/// SELECT * | member [[AS] name], ...  FROM topic [NATURAL JOIN topic ...]  [WHERE condition]
/// ```
/// Topics are joined by the members that they have in common, by name. Where the values of these
/// members are equal, the last samples of one instance of each topic together make a sample. If two
/// topics have no member in common, each instance of one is combined with each of the other. A
/// selected member becomes the member of the same name in the multi-topic's type, or of the name
/// beside it. `*` selects for each member of that type the member of the same name. Members that
/// are not selected have their defaults. The condition applies to the multi-topic's samples, and
/// has parameters as a content filter has.
///
/// A new sample is made whenever one of the topics has a new sample that matches samples of the
/// others. An instance is disposed when none of its samples can be made any more, because an
/// instance that contributed to it is over or has other values.
///
/// ```no_run
/// use dds_api::prelude::*;
///
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct Location { #[dds(key)] flight: u32, x: f64, y: f64, z: f64 }
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct FlightPlan { #[dds(key)] flight: u32, name: String }
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct FlightView { #[dds(key)] name: String, x: f64, height: f64 }
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let locations = participant.topic::<Location>("Location").create()?;
/// let plans = participant.topic::<FlightPlan>("FlightPlan").create()?;
/// let low = participant.multi_topic::<FlightView>(
///     "Low flights",
///     "SELECT name, x, z AS height FROM Location NATURAL JOIN FlightPlan WHERE height < %0",
///     &["1000".to_owned()],
/// )?;
/// let reader = participant.reader(&low).create()?;
/// for flight in reader.take_data(.., Timeout::secs(1))? {
///     println!("{} at {}", flight.name, flight.height);
/// }
/// # Ok(())
/// # }
/// ```
pub struct MultiTopic<T: TopicData>(Arc<MultiTopicState<T>>);

struct MultiTopicState<T: TopicData> {
    topic: Topic<T>,
    filter: Arc<SharedFilter>,
    joined: Arc<JoinedTopics>,
}

/// The topics that a multi-topic joins.
pub(crate) struct JoinedTopics {
    pub(crate) topics: Vec<Topic<DynamicData>>,
    pub(crate) plan: Arc<JoinPlan>,
}

impl<T: TopicData> Clone for MultiTopic<T> {
    fn clone(&self) -> Self {
        MultiTopic(Arc::clone(&self.0))
    }
}

impl<T: TopicData> MultiTopic<T> {
    pub(crate) fn new(
        participant: &Arc<ParticipantInner>,
        name: &str,
        support: T::TypeSupport,
        expression: &str,
        parameters: &[String],
    ) -> DdsResult<Self> {
        let fields = T::fields(&support);
        let (selection, filter) = Filter::of_selection(fields, expression, parameters)
            .map_err(|error| expression_error(&error))?;
        let mut topics = Vec::new();
        for (topic, _) in &selection.topics {
            topics.push(constituent(participant, topic)?);
        }
        let types: Vec<DynamicType> = topics.iter().map(|topic| topic.support.clone()).collect();
        let plan = JoinPlan::new(expression, &selection, &types, T::dynamic_type(&support));
        let plan = Arc::new(plan.map_err(|error| expression_error(&error))?);
        let topic = Topic::local(participant, name, support, TopicOrigin::Topics)?;
        let (filter, joined) = (Arc::new(SharedFilter::new(filter)), JoinedTopics { topics, plan });
        let state = Arc::new(MultiTopicState { topic, filter, joined: Arc::new(joined) });
        let known: Weak<MultiTopicState<T>> = Arc::downgrade(&state);
        let known: Weak<dyn Any + Send + Sync> = known;
        participant.derived_topics.enter(&name.into(), known);
        Ok(MultiTopic(state))
    }

    /// The participant of the multi-topic.
    #[doc(alias = "get_participant")]
    pub fn participant(&self) -> DomainParticipant {
        DomainParticipant::of(Arc::clone(&self.0.topic.participant))
    }

    /// The name, which is known only within this participant.
    pub fn name(&self) -> &str {
        self.0.topic.name()
    }

    /// The names of the joined topics.
    pub fn related_topics(&self) -> impl Iterator<Item = &str> {
        self.0.joined.topics.iter().map(Topic::name)
    }

    /// The expression.
    #[doc(alias = "get_subscription_expression")]
    pub fn subscription_expression(&self) -> String {
        self.0.filter.get().expression().to_owned()
    }

    /// The current values of the expression's parameters.
    #[doc(alias = "get_expression_parameters")]
    pub fn expression_parameters(&self) -> Vec<String> {
        self.0.filter.get().parameters().to_vec()
    }

    /// Sets the values of the expression's parameters, for samples that readers examine from
    /// now on.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if a value is missing or cannot be compared; all values then
    /// remain unchanged.
    pub fn set_expression_parameters(&self, parameters: &[String]) -> DdsResult<()> {
        self.0.filter.set_parameters(parameters)
    }
}

/// A topic of this name that the participant has, with any type of samples.
fn constituent(participant: &Arc<ParticipantInner>, name: &str) -> DdsResult<Topic<DynamicData>> {
    let found = participant.topics(name).find(|topic| topic.is_enabled());
    let found = found.and_then(TopicEntity::any_topic);
    found.ok_or_else(|| {
        DdsError::PreconditionNotMet(format!(
            "the participant has no topic `{name}` that is enabled: create or find the topic \
             before joining it with others"
        ))
    })
}

impl<T: TopicData> TopicDescription for MultiTopic<T> {
    type Data = T;

    fn topic(&self) -> &Topic<T> {
        &self.0.topic
    }

    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn look_up(participant: &ParticipantInner, name: &str) -> Option<Self> {
        participant.derived_topics.find(name).map(MultiTopic)
    }

    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn filter(&self) -> Option<Arc<SharedFilter>> {
        Some(Arc::clone(&self.0.filter))
    }

    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn joined(&self) -> Option<Arc<JoinedTopics>> {
        Some(Arc::clone(&self.0.joined))
    }
}

/// Class of values that can be equal to each other, and by which rows can be joined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ComparisonClass {
    Whole,
    Number,
    Text,
}

impl ComparisonClass {
    fn of(of: &DynamicType) -> Option<ComparisonClass> {
        Some(match of.value_kind() {
            ValueKind::Primitive(Primitive::Float32 | Primitive::Float64) => {
                ComparisonClass::Number
            }
            ValueKind::Primitive(Primitive::Char8 | Primitive::Char16) | ValueKind::Text => {
                ComparisonClass::Text
            }
            ValueKind::Primitive(Primitive::Float128) => return None,
            ValueKind::Primitive(_) | ValueKind::Enumeration(_) | ValueKind::Bitmask => {
                ComparisonClass::Whole
            }
            _ => return None,
        })
    }
}

impl JoinPlan {
    /// Makes the plan by which topics of these types are joined to samples of type `result`.
    fn new(
        expression: &str,
        selection: &Selection,
        types: &[DynamicType],
        result: DynamicType,
    ) -> Result<JoinPlan, ExpressionError> {
        let fail = |at: usize, why: String| Err(ExpressionError::new(expression, at, why));
        let topics = &selection.topics;
        for (index, (name, at)) in topics.iter().enumerate() {
            if topics[..index].iter().any(|(other, _)| other == name) {
                return fail(*at, format!("topic `{name}` occurs twice"));
            }
        }
        let members: Vec<Vec<String>> = types.iter().map(DynamicType::member_names).collect();
        let mut common = Vec::new();
        let mut tables = vec![BTreeSet::new(); types.len()];
        for (table, names) in members.iter().enumerate() {
            for name in names {
                let mut earlier = members[..table].iter();
                let Some(first) = earlier.position(|others| others.contains(name)) else {
                    continue;
                };
                let class = |table: usize| ComparisonClass::of(&types[table].member(name).ok()?.1);
                let ((_, at), one, other) = (&topics[table], &topics[first].0, &topics[table].0);
                match (class(first), class(table)) {
                    (Some(first), Some(second)) if first == second => {}
                    _ => {
                        return fail(
                            *at,
                            format!(
                                "`{one}` and `{other}` are joined by their common member `{name}`, \
                                 but its values cannot be compared"
                            ),
                        );
                    }
                }
                let place = common.iter().position(|known| known == name).unwrap_or_else(|| {
                    common.push(name.clone());
                    common.len() - 1
                });
                tables[first].insert(place);
                tables[table].insert(place);
            }
        }
        let columns = match &selection.columns[..] {
            [] => result.member_names().into_iter().map(|name| (0, name.clone(), name)).collect(),
            columns => columns
                .iter()
                .map(|column| {
                    let path = column.field.to_string();
                    (column.at, path.clone(), column.name.clone().unwrap_or(path))
                })
                .collect::<Vec<_>>(),
        };
        let mut all = Vec::new();
        for (at, path, name) in columns {
            let found = types.iter().enumerate();
            let mut found = found.filter_map(|(table, of)| Some((table, of.member(&path).ok()?.1)));
            let Some((table, source)) = found.next() else {
                return fail(at, format!("none of the topics has a member `{path}`"));
            };
            let of = match result.member(&name) {
                Ok((_, of)) => of,
                Err(why) => return fail(at, format!("type of the joined samples: {}", why.reason)),
            };
            if let Err(why) = TypeConsistency::default().check(&of, &source) {
                let topic = &topics[table].0;
                return fail(
                    at,
                    format!("`{path}` of `{topic}` cannot be assigned to `{name}`: {}", why.reason),
                );
            }
            all.push((table, path, name));
        }
        Ok(JoinPlan { common, tables, columns: all, result })
    }
}
