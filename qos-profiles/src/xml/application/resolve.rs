//! Resolution of domains and participants: inherited contents and references.
//!
//! Owns: the lookup of a base, a domain, a topic and a registered type, and the error if one is
//! missing. Never does: look at policies, whose bases are resolved like those of any set.

use super::describe::{
    ApplicationTypes, EndpointDescription, FilterDescription, GroupDescription,
    ParticipantDescription, RegisteredType, TopicDescription, UnknownParticipant,
};
use super::model::{Applications, DomainOrParticipant, Endpoint, Filter, Group, Registered, Topic};
use super::type_text::TypeText;
use crate::xml::error::{LineColumn, MOST_ERRORS, ProfileError, UnplacedError, quoted};
use crate::xml::model::{Base, full_name};
use crate::xml::suggest::suggest;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a chain of bases.
const LONGEST_CHAIN: usize = 8;

type DomainsAndParticipants = BTreeMap<String, DomainOrParticipant>;

/// An item, and the domain or participant that defines it.
struct DefinedItem<'a, T> {
    definer: &'a DomainOrParticipant,
    item: &'a T,
}

impl<T> Clone for DefinedItem<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DefinedItem<'_, T> {}

impl<T> DefinedItem<'_, T> {
    /// Returns the path of elements from the root to the item.
    fn path(&self, inside: &str) -> String {
        format!("{}/{inside}", self.definer.path)
    }
}

/// Finds all errors in the references of applications.
pub(in crate::xml) fn check(applications: &Applications) -> Vec<ProfileError> {
    let mut check = ApplicationCheck { errors: Vec::new() };
    // A base participant may leave the choice of a domain to the participants that inherit from it.
    let bases: BTreeSet<&str> = applications
        .participants
        .values()
        .filter_map(|owner| find(&applications.participants, &owner.library, owner.base.as_ref()?))
        .map(|owner| owner.name.as_str())
        .collect();
    for owner in applications.domains.values() {
        if let Some(chain) = check.chain(&applications.domains, owner) {
            let merged = MergedContents::new(&chain, &[]);
            check.topics(&merged, owner, false);
        }
    }
    for owner in applications.participants.values() {
        let Some(chain) = check.chain(&applications.participants, owner) else { continue };
        let Ok(domain) = check.domain(applications, owner, &chain) else { continue };
        let merged = MergedContents::new(&chain, &domain);
        let is_part = domain.is_empty() && bases.contains(owner.name.as_str());
        if id(&chain, &domain).is_none() && !bases.contains(owner.name.as_str()) {
            let error = UnplacedError::new(
                "found no domain",
                "expected `domain_ref`, `domain_id`, or a base that has one",
            );
            check.error(owner, owner.at, owner.path.to_string(), error);
        }
        check.topics(&merged, owner, is_part);
        check.endpoints(&merged, owner, is_part);
    }
    check.errors
}

impl Applications {
    /// Returns all types, and their uses.
    pub(in crate::xml) fn of_types<'a>(&self, text: &'a TypeText) -> ApplicationTypes<'a> {
        let owners = self.domains.values().chain(self.participants.values());
        let registered = owners.flat_map(|owner| {
            owner.types.iter().map(move |of| DefinedItem { definer: owner, item: of })
        });
        let registered = registered.map(|registered| {
            let path = registered.path(&format!("register_type[{}]", registered.item.name));
            let position = (registered.definer.place(registered.item.at), path);
            RegisteredType { type_name: registered.item.of.to_string(), place: position }
        });
        let registered = registered.collect();
        // If many participants inherit a filter, each type that it applies to is listed once.
        let mut filters: BTreeMap<(*const Filter, &str), FilterDescription> = BTreeMap::new();
        for owner in self.participants.values() {
            let Some((merged, _)) = merged(self, owner) else { continue };
            let alone = merged.readers.values().map(|reader| (*reader, None));
            let inside = merged.subscribers.values().flat_map(
                |DefinedItem { definer: owner, item: group }| {
                    let readers = group.endpoints.iter();
                    readers.map(move |of| {
                        (DefinedItem { definer: owner, item: of }, group.name.as_deref())
                    })
                },
            );
            for (reader, group) in alone.chain(inside) {
                let Some(filter) = &reader.item.filter else { continue };
                let topic = merged.topics.get(&*reader.item.topic);
                let of = topic.and_then(|topic| merged.types.get(&*topic.item.registered));
                let Some(of) = of else { continue };
                filters
                    .entry((filter, &of.item.of))
                    .or_insert_with(|| describe_filter(filter, reader, group));
            }
        }
        let filters = filters.into_iter().map(|((_, of), filter)| (of.to_owned(), filter));
        ApplicationTypes { text, registered, filters: filters.collect() }
    }
}

/// Returns a participant with all its entities. Valid only for files without errors.
pub(in crate::xml) fn describe(
    applications: &Applications,
    name: &str,
) -> Result<ParticipantDescription, UnknownParticipant> {
    let found =
        applications.participants.get(name).and_then(|owner| description(applications, owner));
    found.ok_or_else(|| {
        let names = || applications.participants.keys().map(String::as_str);
        // The name may lack its library.
        let inside = names().find(|full_name| full_name.rsplit("::").next() == Some(name));
        let suggestion = inside.map(str::to_owned).or_else(|| suggest(name, names()));
        UnknownParticipant { name: name.to_owned(), suggestion }
    })
}

fn find<'a>(
    owners: &'a DomainsAndParticipants,
    library: &str,
    name: &Base,
) -> Option<&'a DomainOrParticipant> {
    match name.name.contains("::") {
        true => owners.get(&*name.name),
        false => owners.get(&full_name(library, &name.name)),
    }
}

/// Returns an item and all its bases, the furthest first; or the names of a chain that is cyclic or
/// too long.
fn chain<'a>(
    owners: &'a DomainsAndParticipants,
    owner: &'a DomainOrParticipant,
) -> Result<Vec<&'a DomainOrParticipant>, Result<Vec<String>, &'a DomainOrParticipant>> {
    let mut chain = vec![owner];
    let mut last = owner;
    while let Some(base) = &last.base {
        last = find(owners, &last.library, base).ok_or(Err(last))?;
        let first = chain.iter().position(|other| std::ptr::eq(*other, last));
        if first.is_some() || chain.len() > LONGEST_CHAIN {
            let mut names: Vec<String> =
                chain[first.unwrap_or(0)..].iter().map(|owner| owner.name.clone()).collect();
            names.push(last.name.clone());
            return Err(Ok(names));
        }
        chain.push(last);
    }
    chain.reverse();
    Ok(chain)
}

/// Returns the domain of a participant, and the reference to it.
fn domain_of<'a>(chain: &[&'a DomainOrParticipant]) -> Option<(&'a DomainOrParticipant, &'a Base)> {
    chain.iter().rev().find_map(|owner| Some((*owner, owner.domain.as_ref()?)))
}

/// Returns the number of a participant's domain: its own number takes precedence over that of the
/// referenced domain.
fn id(chain: &[&DomainOrParticipant], domain: &[&DomainOrParticipant]) -> Option<u32> {
    chain.iter().rev().chain(domain.iter().rev()).find_map(|owner| owner.id)
}

/// Contents of a domain or participant, own and inherited, by name. An own item replaces an
/// inherited one of the same name.
struct MergedContents<'a> {
    types: BTreeMap<&'a str, DefinedItem<'a, Registered>>,
    topics: BTreeMap<&'a str, DefinedItem<'a, Topic>>,
    publishers: BTreeMap<Option<&'a str>, DefinedItem<'a, Group>>,
    subscribers: BTreeMap<Option<&'a str>, DefinedItem<'a, Group>>,
    /// Writers and readers outside of publishers and subscribers, which are inherited one by one.
    writers: BTreeMap<&'a str, DefinedItem<'a, Endpoint>>,
    readers: BTreeMap<&'a str, DefinedItem<'a, Endpoint>>,
}

impl<'a> MergedContents<'a> {
    fn new(
        chain: &[&'a DomainOrParticipant],
        domain: &[&'a DomainOrParticipant],
    ) -> MergedContents<'a> {
        let (types, topics) = (BTreeMap::new(), BTreeMap::new());
        let (publishers, subscribers) = (BTreeMap::new(), BTreeMap::new());
        let (writers, readers) = (BTreeMap::new(), BTreeMap::new());
        let mut merged =
            MergedContents { types, topics, publishers, subscribers, writers, readers };
        for owner in domain.iter().chain(chain).copied() {
            merged.types.extend(
                owner.types.iter().map(|of| (&*of.name, DefinedItem { definer: owner, item: of })),
            );
            merged.topics.extend(
                owner.topics.iter().map(|of| (&*of.name, DefinedItem { definer: owner, item: of })),
            );
            for (groups, all, alone) in [
                (&owner.publishers, &mut merged.publishers, &mut merged.writers),
                (&owner.subscribers, &mut merged.subscribers, &mut merged.readers),
            ] {
                for of in groups {
                    match &of.name {
                        Some(_) => {
                            all.insert(
                                of.name.as_deref(),
                                DefinedItem { definer: owner, item: of },
                            );
                        }
                        None => alone.extend(
                            of.endpoints
                                .iter()
                                .map(|of| (&*of.name, DefinedItem { definer: owner, item: of })),
                        ),
                    }
                }
            }
        }
        merged
    }
}

struct ApplicationCheck {
    errors: Vec<ProfileError>,
}

impl ApplicationCheck {
    fn error(
        &mut self,
        owner: &DomainOrParticipant,
        at: LineColumn,
        path: String,
        wrong: UnplacedError,
    ) {
        let UnplacedError { found, expected, suggestion } = wrong;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(ProfileError {
                place: owner.place(at),
                path,
                found,
                expected,
                suggestion,
            });
        }
    }

    /// Returns an item and all its bases. An error in a base is reported once, where the base
    /// is named.
    fn chain<'a>(
        &mut self,
        owners: &'a DomainsAndParticipants,
        owner: &'a DomainOrParticipant,
    ) -> Option<Vec<&'a DomainOrParticipant>> {
        let error = match chain(owners, owner) {
            Ok(chain) => return Some(chain),
            Err(Err(at)) if std::ptr::eq(at, owner) => {
                let base = owner.base.as_ref()?;
                unknown("base", &base.name, &owner.library, owners)
            }
            // A cycle is reported only for the member with the smallest name.
            Err(Ok(names)) if names.iter().min() == Some(&owner.name) => UnplacedError::new(
                format!(
                    "found a chain of bases that is circular or too long ({})",
                    chain_text(&names)
                ),
                format!("expected a chain of at most {LONGEST_CHAIN} bases without a cycle"),
            ),
            Err(_) => return None,
        };
        let at = owner.base.as_ref().map_or(owner.at, |base| base.at);
        self.error(owner, at, owner.path.to_string(), error);
        None
    }

    /// Returns a participant's domain with its bases; empty if the participant names none.
    fn domain<'a>(
        &mut self,
        applications: &'a Applications,
        owner: &DomainOrParticipant,
        own: &[&'a DomainOrParticipant],
    ) -> Result<Vec<&'a DomainOrParticipant>, ()> {
        let Some((by, base)) = domain_of(own) else { return Ok(Vec::new()) };
        let Some(domain) = find(&applications.domains, &by.library, base) else {
            if std::ptr::eq(by, owner) {
                let error = unknown("domain", &base.name, &by.library, &applications.domains);
                self.error(owner, base.at, owner.path.to_string(), error);
            }
            return Err(());
        };
        // Errors in the bases of the domain are reported at the domain.
        chain(&applications.domains, domain).map_err(|_| ())
    }

    /// Checks the types of topics that the item defines itself.
    fn topics(&mut self, merged: &MergedContents<'_>, owner: &DomainOrParticipant, is_part: bool) {
        for topic in &owner.topics {
            if is_part || merged.types.contains_key(&*topic.registered) {
                continue;
            }
            let found = format!(
                "register_type_ref: found {}, which is not registered",
                quoted(&topic.registered)
            );
            let error = UnplacedError::new(
                found,
                "expected the name of a `register_type` of this domain or participant",
            );
            let meant = suggest(&topic.registered, merged.types.keys().copied());
            self.error(
                owner,
                topic.at,
                format!("{}/topic[{}]", owner.path, topic.name),
                error.suggest(meant),
            );
        }
    }

    /// Checks the topics of writers and readers that the item defines itself.
    fn endpoints(
        &mut self,
        merged: &MergedContents<'_>,
        owner: &DomainOrParticipant,
        is_part: bool,
    ) {
        for (groups, outer, kind) in [
            (&owner.publishers, "publisher", "data_writer"),
            (&owner.subscribers, "subscriber", "data_reader"),
        ] {
            for group in groups {
                for endpoint in &group.endpoints {
                    if is_part || merged.topics.contains_key(&*endpoint.topic) {
                        continue;
                    }
                    let found =
                        format!("topic_ref: found {}, which is not there", quoted(&endpoint.topic));
                    let error = UnplacedError::new(
                        found,
                        "expected a `topic` of this participant or of its domain",
                    );
                    let meant = suggest(&endpoint.topic, merged.topics.keys().copied());
                    let within = group.name.as_ref().map(|name| format!("{outer}[{name}]/"));
                    let path = format!(
                        "{}/{}{kind}[{}]",
                        owner.path,
                        within.unwrap_or_default(),
                        endpoint.name
                    );
                    self.error(owner, endpoint.at, path, error.suggest(meant));
                }
            }
        }
    }
}

fn chain_text(names: &[String]) -> String {
    match names {
        [first, .., last] if names.len() > 8 => format!("{first} -> ... -> {last}"),
        names => names.join(" -> "),
    }
}

/// Error for a missing domain or base.
fn unknown(
    what: &str,
    name: &str,
    library: &str,
    owners: &DomainsAndParticipants,
) -> UnplacedError {
    let found = format!("found the {what} {}, which is not there", quoted(name));
    let error = UnplacedError::new(found, "expected one of this library, or `Library::Name`");
    let prefix = full_name(library, "");
    let all = owners.keys().map(String::as_str);
    let near = all.clone().filter_map(|known| known.strip_prefix(prefix.as_str()));
    // The name may lack its library.
    let inside = all.clone().find(|known| known.rsplit("::").next() == Some(name));
    let meant = match name.contains("::") {
        true => suggest(name, all),
        false => inside.map(str::to_owned).or_else(|| suggest(name, near)),
    };
    error.suggest(meant)
}

/// Returns all contents of a participant, with its domain and bases.
#[allow(clippy::type_complexity, reason = "two chains, told nowhere else")]
fn merged<'a>(
    applications: &'a Applications,
    owner: &'a DomainOrParticipant,
) -> Option<(MergedContents<'a>, (Vec<&'a DomainOrParticipant>, Vec<&'a DomainOrParticipant>))> {
    let own = chain(&applications.participants, owner).ok()?;
    let domain = match domain_of(&own) {
        None => Vec::new(),
        Some((by, base)) => {
            let domain = find(&applications.domains, &by.library, base)?;
            chain(&applications.domains, domain).ok()?
        }
    };
    Some((MergedContents::new(&own, &domain), (own, domain)))
}

fn description(
    applications: &Applications,
    owner: &DomainOrParticipant,
) -> Option<ParticipantDescription> {
    let (merged, (chain, domain)) = merged(applications, owner)?;
    let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let topics = merged.topics.values().map(|topic| {
        let registered = merged.types.get(&*topic.item.registered)?;
        Some(TopicDescription {
            name: topic.item.name.to_string(),
            type_name: registered.item.of.to_string(),
            qos: owned(&topic.item.qos),
        })
    });
    let topics = topics.collect::<Option<Vec<_>>>()?;
    let publishers = groups(&merged.publishers, &merged.writers);
    let subscribers = groups(&merged.subscribers, &merged.readers);
    Some(ParticipantDescription {
        name: owner.name.clone(),
        domain_id: id(&chain, &domain)?,
        qos: chain.iter().rev().find_map(|owner| owned(&owner.qos)),
        topics,
        publishers,
        subscribers,
        place: owner.place(owner.at),
    })
}

fn groups(
    named: &BTreeMap<Option<&str>, DefinedItem<'_, Group>>,
    alone: &BTreeMap<&str, DefinedItem<'_, Endpoint>>,
) -> Vec<GroupDescription> {
    let mut all = Vec::new();
    if !alone.is_empty() {
        let endpoints = alone.values().map(|endpoint| describe_endpoint(*endpoint, None)).collect();
        all.push(GroupDescription { name: None, qos: None, endpoints });
    }
    all.extend(named.values().map(|DefinedItem { definer: owner, item: group }| {
        GroupDescription {
            name: group.name.as_deref().map(str::to_owned),
            qos: group.qos.as_deref().map(str::to_owned),
            endpoints: group
                .endpoints
                .iter()
                .map(|of| {
                    describe_endpoint(
                        DefinedItem { definer: owner, item: of },
                        group.name.as_deref(),
                    )
                })
                .collect(),
        }
    }));
    all
}

fn describe_endpoint(
    endpoint: DefinedItem<'_, Endpoint>,
    group: Option<&str>,
) -> EndpointDescription {
    let of = endpoint.item;
    let filter = of.filter.as_ref().map(|filter| describe_filter(filter, endpoint, group));
    EndpointDescription {
        name: of.name.to_string(),
        topic: of.topic.to_string(),
        qos: of.qos.as_deref().map(str::to_owned),
        filter,
    }
}

fn describe_filter(
    filter: &Filter,
    reader: DefinedItem<'_, Endpoint>,
    group: Option<&str>,
) -> FilterDescription {
    let within = group.map(|group| format!("subscriber[{group}]/")).unwrap_or_default();
    let path = reader.path(&format!("{within}data_reader[{}]/filter", reader.item.name));
    FilterDescription {
        name: filter.name.as_deref().unwrap_or(&reader.item.name).to_owned(),
        expression: filter.expression.to_string(),
        parameters: filter.parameters.clone(),
        place: (reader.definer.place(filter.at), path),
    }
}
