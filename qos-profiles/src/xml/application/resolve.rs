//! Resolution of domains and participants: inherited contents and references.
//!
//! Owns: the lookup of a base, a domain, a topic and a registered type, and the error if one is
//! missing. Never does: look at policies, whose bases are resolved like those of any set.

use super::describe::{
    ApplicationTypes, EndpointDescription, FilterDescription, GroupDescription,
    ParticipantDescription, RegisteredType, TopicDescription, UnknownParticipant,
};
use super::model::{Applications, Endpoint, Filter, Group, Registered, Room, Topic};
use super::type_text::TypeText;
use crate::xml::error::{At, MOST_ERRORS, ProfileError, Wrong, quoted};
use crate::xml::model::{Base, full_name};
use crate::xml::suggest::suggest;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a chain of bases.
const LONGEST_CHAIN: usize = 8;

type Rooms = BTreeMap<String, Room>;

/// An item, and the domain or participant that defines it.
struct In<'a, T> {
    room: &'a Room,
    of: &'a T,
}

impl<T> Clone for In<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<'_, T> {}

impl<T> In<'_, T> {
    /// Returns the path of elements from the root to the item.
    fn path(&self, inside: &str) -> String {
        format!("{}/{inside}", self.room.path)
    }
}

/// Finds all errors in the references of applications.
pub(in crate::xml) fn check(applications: &Applications) -> Vec<ProfileError> {
    let mut check = Check { errors: Vec::new() };
    // A base participant may leave the choice of a domain to the participants that inherit from it.
    let bases: BTreeSet<&str> = applications
        .participants
        .values()
        .filter_map(|room| find(&applications.participants, &room.library, room.base.as_ref()?))
        .map(|room| room.name.as_str())
        .collect();
    for room in applications.domains.values() {
        if let Some(chain) = check.chain(&applications.domains, room) {
            let whole = Whole::new(&chain, &[]);
            check.topics(&whole, room, false);
        }
    }
    for room in applications.participants.values() {
        let Some(chain) = check.chain(&applications.participants, room) else { continue };
        let Ok(domain) = check.domain(applications, room, &chain) else { continue };
        let whole = Whole::new(&chain, &domain);
        let is_part = domain.is_empty() && bases.contains(room.name.as_str());
        if id(&chain, &domain).is_none() && !bases.contains(room.name.as_str()) {
            let wrong = Wrong::new(
                "found no domain",
                "expected `domain_ref`, `domain_id`, or a base that has one",
            );
            check.error(room, room.at, room.path.to_string(), wrong);
        }
        check.topics(&whole, room, is_part);
        check.endpoints(&whole, room, is_part);
    }
    check.errors
}

impl Applications {
    /// Returns all types, and their uses.
    pub(in crate::xml) fn of_types<'a>(&self, text: &'a TypeText) -> ApplicationTypes<'a> {
        let rooms = self.domains.values().chain(self.participants.values());
        let registered = rooms.flat_map(|room| room.types.iter().map(move |of| In { room, of }));
        let registered = registered.map(|registered| {
            let path = registered.path(&format!("register_type[{}]", registered.of.name));
            let place = (registered.room.place(registered.of.at), path);
            RegisteredType { type_name: registered.of.of.to_string(), place }
        });
        let registered = registered.collect();
        // If many participants inherit a filter, each type that it applies to is listed once.
        let mut filters: BTreeMap<(*const Filter, &str), FilterDescription> = BTreeMap::new();
        for room in self.participants.values() {
            let Some((whole, _)) = whole(self, room) else { continue };
            let alone = whole.readers.values().map(|reader| (*reader, None));
            let inside = whole.subscribers.values().flat_map(|In { room, of: group }| {
                let readers = group.endpoints.iter();
                readers.map(move |of| (In { room, of }, group.name.as_deref()))
            });
            for (reader, group) in alone.chain(inside) {
                let Some(filter) = &reader.of.filter else { continue };
                let topic = whole.topics.get(&*reader.of.topic);
                let of = topic.and_then(|topic| whole.types.get(&*topic.of.registered));
                let Some(of) = of else { continue };
                filters
                    .entry((filter, &of.of.of))
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
        applications.participants.get(name).and_then(|room| description(applications, room));
    found.ok_or_else(|| {
        let names = || applications.participants.keys().map(String::as_str);
        // The name may lack its library.
        let inside = names().find(|whole| whole.rsplit("::").next() == Some(name));
        let suggestion = inside.map(str::to_owned).or_else(|| suggest(name, names()));
        UnknownParticipant { name: name.to_owned(), suggestion }
    })
}

fn find<'a>(rooms: &'a Rooms, library: &str, name: &Base) -> Option<&'a Room> {
    match name.name.contains("::") {
        true => rooms.get(&*name.name),
        false => rooms.get(&full_name(library, &name.name)),
    }
}

/// Returns an item and all its bases, the furthest first; or the names of a chain that is cyclic or
/// too long.
fn chain<'a>(
    rooms: &'a Rooms,
    room: &'a Room,
) -> Result<Vec<&'a Room>, Result<Vec<String>, &'a Room>> {
    let mut chain = vec![room];
    let mut last = room;
    while let Some(base) = &last.base {
        last = find(rooms, &last.library, base).ok_or(Err(last))?;
        let first = chain.iter().position(|other| std::ptr::eq(*other, last));
        if first.is_some() || chain.len() > LONGEST_CHAIN {
            let mut names: Vec<String> =
                chain[first.unwrap_or(0)..].iter().map(|room| room.name.clone()).collect();
            names.push(last.name.clone());
            return Err(Ok(names));
        }
        chain.push(last);
    }
    chain.reverse();
    Ok(chain)
}

/// Returns the domain of a participant, and the reference to it.
fn domain_of<'a>(chain: &[&'a Room]) -> Option<(&'a Room, &'a Base)> {
    chain.iter().rev().find_map(|room| Some((*room, room.domain.as_ref()?)))
}

/// Returns the number of a participant's domain: its own number takes precedence over that of the
/// referenced domain.
fn id(chain: &[&Room], domain: &[&Room]) -> Option<u32> {
    chain.iter().rev().chain(domain.iter().rev()).find_map(|room| room.id)
}

/// Contents of a domain or participant, own and inherited, by name. An own item replaces an
/// inherited one of the same name.
struct Whole<'a> {
    types: BTreeMap<&'a str, In<'a, Registered>>,
    topics: BTreeMap<&'a str, In<'a, Topic>>,
    publishers: BTreeMap<Option<&'a str>, In<'a, Group>>,
    subscribers: BTreeMap<Option<&'a str>, In<'a, Group>>,
    /// Writers and readers outside of publishers and subscribers, which are inherited one by one.
    writers: BTreeMap<&'a str, In<'a, Endpoint>>,
    readers: BTreeMap<&'a str, In<'a, Endpoint>>,
}

impl<'a> Whole<'a> {
    fn new(chain: &[&'a Room], domain: &[&'a Room]) -> Whole<'a> {
        let (types, topics) = (BTreeMap::new(), BTreeMap::new());
        let (publishers, subscribers) = (BTreeMap::new(), BTreeMap::new());
        let (writers, readers) = (BTreeMap::new(), BTreeMap::new());
        let mut whole = Whole { types, topics, publishers, subscribers, writers, readers };
        for room in domain.iter().chain(chain).copied() {
            whole.types.extend(room.types.iter().map(|of| (&*of.name, In { room, of })));
            whole.topics.extend(room.topics.iter().map(|of| (&*of.name, In { room, of })));
            for (groups, all, alone) in [
                (&room.publishers, &mut whole.publishers, &mut whole.writers),
                (&room.subscribers, &mut whole.subscribers, &mut whole.readers),
            ] {
                for of in groups {
                    match &of.name {
                        Some(_) => drop(all.insert(of.name.as_deref(), In { room, of })),
                        None => {
                            alone.extend(of.endpoints.iter().map(|of| (&*of.name, In { room, of })))
                        }
                    }
                }
            }
        }
        whole
    }
}

struct Check {
    errors: Vec<ProfileError>,
}

impl Check {
    fn error(&mut self, room: &Room, at: At, path: String, wrong: Wrong) {
        let Wrong { found, expected, suggestion } = wrong;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(ProfileError {
                place: room.place(at),
                path,
                found,
                expected,
                suggestion,
            });
        }
    }

    /// Returns an item and all its bases. An error in a base is reported once, where the base
    /// is named.
    fn chain<'a>(&mut self, rooms: &'a Rooms, room: &'a Room) -> Option<Vec<&'a Room>> {
        let wrong = match chain(rooms, room) {
            Ok(chain) => return Some(chain),
            Err(Err(at)) if std::ptr::eq(at, room) => {
                let base = room.base.as_ref()?;
                unknown("base", &base.name, &room.library, rooms)
            }
            // A cycle is reported only for the member with the smallest name.
            Err(Ok(names)) if names.iter().min() == Some(&room.name) => Wrong::new(
                format!("found a chain of bases that is circular or too long ({})", told(&names)),
                format!("expected a chain of at most {LONGEST_CHAIN} bases without a cycle"),
            ),
            Err(_) => return None,
        };
        let at = room.base.as_ref().map_or(room.at, |base| base.at);
        self.error(room, at, room.path.to_string(), wrong);
        None
    }

    /// Returns a participant's domain with its bases; empty if the participant names none.
    fn domain<'a>(
        &mut self,
        applications: &'a Applications,
        room: &Room,
        own: &[&'a Room],
    ) -> Result<Vec<&'a Room>, ()> {
        let Some((by, base)) = domain_of(own) else { return Ok(Vec::new()) };
        let Some(domain) = find(&applications.domains, &by.library, base) else {
            if std::ptr::eq(by, room) {
                let wrong = unknown("domain", &base.name, &by.library, &applications.domains);
                self.error(room, base.at, room.path.to_string(), wrong);
            }
            return Err(());
        };
        // Errors in the bases of the domain are reported at the domain.
        chain(&applications.domains, domain).map_err(|_| ())
    }

    /// Checks the types of topics that the item defines itself.
    fn topics(&mut self, whole: &Whole<'_>, room: &Room, is_part: bool) {
        for topic in &room.topics {
            if is_part || whole.types.contains_key(&*topic.registered) {
                continue;
            }
            let found = format!(
                "register_type_ref: found {}, which is not registered",
                quoted(&topic.registered)
            );
            let wrong = Wrong::new(
                found,
                "expected the name of a `register_type` of this domain or participant",
            );
            let meant = suggest(&topic.registered, whole.types.keys().copied());
            self.error(
                room,
                topic.at,
                format!("{}/topic[{}]", room.path, topic.name),
                wrong.suggest(meant),
            );
        }
    }

    /// Checks the topics of writers and readers that the item defines itself.
    fn endpoints(&mut self, whole: &Whole<'_>, room: &Room, is_part: bool) {
        for (groups, outer, kind) in [
            (&room.publishers, "publisher", "data_writer"),
            (&room.subscribers, "subscriber", "data_reader"),
        ] {
            for group in groups {
                for endpoint in &group.endpoints {
                    if is_part || whole.topics.contains_key(&*endpoint.topic) {
                        continue;
                    }
                    let found =
                        format!("topic_ref: found {}, which is not there", quoted(&endpoint.topic));
                    let wrong = Wrong::new(
                        found,
                        "expected a `topic` of this participant or of its domain",
                    );
                    let meant = suggest(&endpoint.topic, whole.topics.keys().copied());
                    let within = group.name.as_ref().map(|name| format!("{outer}[{name}]/"));
                    let path = format!(
                        "{}/{}{kind}[{}]",
                        room.path,
                        within.unwrap_or_default(),
                        endpoint.name
                    );
                    self.error(room, endpoint.at, path, wrong.suggest(meant));
                }
            }
        }
    }
}

fn told(names: &[String]) -> String {
    match names {
        [first, .., last] if names.len() > 8 => format!("{first} -> ... -> {last}"),
        names => names.join(" -> "),
    }
}

/// Error for a missing domain or base.
fn unknown(what: &str, name: &str, library: &str, rooms: &Rooms) -> Wrong {
    let found = format!("found the {what} {}, which is not there", quoted(name));
    let wrong = Wrong::new(found, "expected one of this library, or `Library::Name`");
    let prefix = full_name(library, "");
    let all = rooms.keys().map(String::as_str);
    let near = all.clone().filter_map(|whole| whole.strip_prefix(prefix.as_str()));
    // The name may lack its library.
    let inside = all.clone().find(|whole| whole.rsplit("::").next() == Some(name));
    let meant = match name.contains("::") {
        true => suggest(name, all),
        false => inside.map(str::to_owned).or_else(|| suggest(name, near)),
    };
    wrong.suggest(meant)
}

/// Returns all contents of a participant, with its domain and bases.
#[allow(clippy::type_complexity, reason = "two chains, told nowhere else")]
fn whole<'a>(
    applications: &'a Applications,
    room: &'a Room,
) -> Option<(Whole<'a>, (Vec<&'a Room>, Vec<&'a Room>))> {
    let own = chain(&applications.participants, room).ok()?;
    let domain = match domain_of(&own) {
        None => Vec::new(),
        Some((by, base)) => {
            let domain = find(&applications.domains, &by.library, base)?;
            chain(&applications.domains, domain).ok()?
        }
    };
    Some((Whole::new(&own, &domain), (own, domain)))
}

fn description(applications: &Applications, room: &Room) -> Option<ParticipantDescription> {
    let (whole, (chain, domain)) = whole(applications, room)?;
    let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let topics = whole.topics.values().map(|topic| {
        let registered = whole.types.get(&*topic.of.registered)?;
        Some(TopicDescription {
            name: topic.of.name.to_string(),
            type_name: registered.of.of.to_string(),
            qos: owned(&topic.of.qos),
        })
    });
    let topics = topics.collect::<Option<Vec<_>>>()?;
    let publishers = groups(&whole.publishers, &whole.writers);
    let subscribers = groups(&whole.subscribers, &whole.readers);
    Some(ParticipantDescription {
        name: room.name.clone(),
        domain_id: id(&chain, &domain)?,
        qos: chain.iter().rev().find_map(|room| owned(&room.qos)),
        topics,
        publishers,
        subscribers,
        place: room.place(room.at),
    })
}

fn groups(
    named: &BTreeMap<Option<&str>, In<'_, Group>>,
    alone: &BTreeMap<&str, In<'_, Endpoint>>,
) -> Vec<GroupDescription> {
    let mut all = Vec::new();
    if !alone.is_empty() {
        let endpoints = alone.values().map(|endpoint| describe_endpoint(*endpoint, None)).collect();
        all.push(GroupDescription { name: None, qos: None, endpoints });
    }
    all.extend(named.values().map(|In { room, of: group }| {
        GroupDescription {
            name: group.name.as_deref().map(str::to_owned),
            qos: group.qos.as_deref().map(str::to_owned),
            endpoints: group
                .endpoints
                .iter()
                .map(|of| describe_endpoint(In { room, of }, group.name.as_deref()))
                .collect(),
        }
    }));
    all
}

fn describe_endpoint(endpoint: In<'_, Endpoint>, group: Option<&str>) -> EndpointDescription {
    let of = endpoint.of;
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
    reader: In<'_, Endpoint>,
    group: Option<&str>,
) -> FilterDescription {
    let within = group.map(|group| format!("subscriber[{group}]/")).unwrap_or_default();
    let path = reader.path(&format!("{within}data_reader[{}]/filter", reader.of.name));
    FilterDescription {
        name: filter.name.as_deref().unwrap_or(&reader.of.name).to_owned(),
        expression: filter.expression.to_string(),
        parameters: filter.parameters.clone(),
        place: (reader.room.place(filter.at), path),
    }
}
