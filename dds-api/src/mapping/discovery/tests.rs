//! Effects of announcements, and of departed participants.

use derecho_core::storage::store_set::{StoreAnnouncement, StoreGroupState};

use super::*;
use crate::mapping::level::TopicLevel;
use crate::mapping::order::TopicOrder;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

fn endpoint(kind: EndpointKind, topic: &str, level: TopicLevel) -> Endpoint {
    Endpoint { stream: 20, lines: 21, ..Endpoint::with_defaults(kind, topic, level) }
}

fn say(state: &mut Discovery, node: NodeId, id: u64, endpoint: Option<Endpoint>) -> Vec<u64> {
    state.apply(node, &Announcement::Endpoint(id, endpoint).to_bytes())
}

#[test]
fn a_layout_follows_from_the_endpoints_of_a_topic() {
    let mut state = Discovery::default();
    let atomic = |kind| Some(endpoint(kind, "a", TopicLevel::Atomic));
    let [key] = say(&mut state, B, 1, atomic(EndpointKind::Writer))[..] else { panic!("one") };
    assert_eq!(say(&mut state, A, 1, atomic(EndpointKind::Reader)), [key]);
    assert_eq!(say(&mut state, B, 2, atomic(EndpointKind::Reader)), [key]);
    let plain = endpoint(EndpointKind::Reader, "a", TopicLevel::Unordered);
    assert_eq!(
        say(&mut state, A, 2, Some(plain)),
        [],
        "unordered topic has no key in the order of the atomic one"
    );
    let view = View::of_founders([(A, 1), (B, 1)]);
    let seats = |state: &Discovery| {
        let seats = state.layout(key, &view).members.into_iter();
        seats.map(|seat| (seat.node, seat.reads, seat.sends.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(seats(&state), [(A, true, false), (B, true, true)]);
    assert_eq!(say(&mut state, B, 1, None), [key]);
    assert_eq!(seats(&state), [(A, true, false), (B, true, false)]);
    let mut other = Discovery::default();
    assert!(other.restore(&state.snapshot()));
    assert_eq!(other.snapshot(), state.snapshot());
    assert_eq!((seats(&other), other.keys()), (seats(&state), [key].into()));
    state.forget(A);
    assert_eq!(seats(&state), [(B, true, false)]);
    state.forget(B);
    assert_eq!(state.keys(), []);
}

/// Members of a topic keep its samples. The first one begins. When all holders are gone, one member
/// begins again.
#[test]
fn holders_of_kept_samples_follow_from_members_of_the_topic() {
    let mut state = Discovery::default();
    let kept = |kind| Some(endpoint(kind, "a", TopicLevel::Kept));
    let [key] = say(&mut state, B, 1, kept(EndpointKind::Writer))[..] else { panic!("one") };
    say(&mut state, A, 1, kept(EndpointKind::Reader));
    let names = |state: &Discovery| state.holders(key).map(|it| it.names().to_vec());
    assert_eq!(names(&state), Some(vec![B]));
    let view = View::of_founders([(A, 1), (B, 1)]);
    assert!(
        state.layout(key, &view).members.iter().all(|seat| seat.reads),
        "writers keep samples too"
    );
    assert_eq!(state.readers_of(key).count(), 1);
    state.apply(A, &state.announcement(key, StoreAnnouncement::Holds(7)));
    assert_eq!(names(&state), Some(vec![B]), "report is about another beginning");
    say(&mut state, B, 1, None);
    assert_eq!((names(&state), state.holders(key).unwrap().vacancy()), (Some(vec![]), Some(1)));
    let mut other = Discovery::default();
    assert!(other.restore(&state.snapshot()));
    assert_eq!(other.snapshot(), state.snapshot());
    other.apply(A, &other.announcement(key, StoreAnnouncement::Holds(1)));
    assert_eq!(names(&other), Some(vec![A]), "A had received the samples before");
    state.apply(A, &state.announcement(key, StoreAnnouncement::Lacks(1)));
    assert_eq!((names(&state), state.holders(key).unwrap().beginning()), (Some(vec![A]), 2));
    say(&mut state, A, 1, None);
    assert_eq!(names(&state), None);
}

/// The first endpoint prevails. Endpoints that contradict it join when it is gone, independent of
/// when a member learnt of them.
#[test]
fn excluded_endpoint_joins_when_contradicting_endpoints_are_gone() {
    let mut state = Discovery::default();
    let of = |level| Some(endpoint(EndpointKind::Writer, "a", level));
    let (c, d) = (NodeId(3), NodeId(4));
    let [key] = say(&mut state, c, 1, of(TopicLevel::Kept))[..] else { panic!() };
    let included = |state: &Discovery| state.topics.of(key).collect::<Vec<_>>();
    // Endpoints with lower names that contradict the first one.
    assert_eq!(say(&mut state, B, 1, of(TopicLevel::Atomic)), []);
    assert_eq!(say(&mut state, A, 1, of(TopicLevel::Logged)), []);
    assert_eq!(say(&mut state, A, 2, of(TopicLevel::Atomic)), []);
    say(&mut state, d, 1, of(TopicLevel::Kept));
    assert_eq!(included(&state), [(c, 1), (d, 1)]);
    state.apply(c, &state.announcement(key, StoreAnnouncement::Holds(1)));
    state.apply(d, &state.announcement(key, StoreAnnouncement::Holds(1)));
    assert_eq!(state.holders(key).unwrap().names(), [c, d]);
    let mut late = Discovery::default();
    assert!(late.restore(&state.snapshot()));
    assert_eq!((included(&late), late.snapshot()), (included(&state), state.snapshot()));
    for state in [&mut state, &mut late] {
        state.take_changes();
        state.forget(d);
        assert_eq!(included(state), [(c, 1)]);
        assert!(
            !state
                .take_changes()
                .iter()
                .any(|change| matches!(change, DiscoveryChange::Admitted(_)))
        );
        assert_eq!(say(state, c, 1, None), [key]);
        assert_eq!(
            included(state),
            [(A, 2), (B, 1)],
            "endpoints are admitted in the order of their announcements"
        );
        assert!(
            state
                .take_changes()
                .iter()
                .any(|change| matches!(change, DiscoveryChange::Admitted(_)))
        );
        assert!(state.holders(key).is_none(), "atomic topic keeps no samples");
        state.forget(B);
        // The only remaining endpoint may change its level.
        assert_eq!(say(state, A, 2, of(TopicLevel::Kept)), [key]);
        assert_eq!(included(state), [(A, 2)]);
        assert_eq!(say(state, A, 2, None), [key]);
        assert_eq!(included(state), [(A, 1)]);
        state.forget(A);
        assert!(state.keys().is_empty() && state.topics.excluded().is_empty());
    }
    assert_eq!(late.snapshot(), state.snapshot());
}

/// The owner receives the reason. An endpoint that is part of its order, or belongs to no order,
/// has no such reason.
#[test]
fn endpoint_excluded_by_other_topic_of_its_order_is_told_the_reason() {
    let mut state = Discovery::default();
    let of = |topic, level| {
        let default = endpoint(EndpointKind::Writer, topic, level);
        Some(Endpoint { order: TopicOrder::Common("both".to_owned()), ..default })
    };
    say(&mut state, A, 1, of("a", TopicLevel::Atomic));
    say(&mut state, B, 1, of("b", TopicLevel::Kept));
    say(&mut state, B, 2, of("b", TopicLevel::Unordered));
    say(&mut state, B, 3, of("b", TopicLevel::Atomic));
    say(&mut state, B, 4, of("a", TopicLevel::Kept));
    let why = |id| state.exclusion_by_other_topic(B, id);
    assert!(why(1).is_some_and(|why| why.contains("`both`") && why.contains("`b`")));
    assert_eq!([2, 3, 4, 5].map(why), [const { None }; 4]);
}

/// A snapshot that names unknown endpoints or endpoints of other topics as excluded has no effect.
#[test]
fn restore_ignores_excluded_endpoints_unknown_to_their_topic() {
    let mut state = Discovery::default();
    let writer = endpoint(EndpointKind::Writer, "a", TopicLevel::Atomic);
    let key = say(&mut state, A, 1, Some(writer))[0];
    let excluded = [(key, vec![(A, 7), (B, 1)]), (key + 1, vec![(A, 1)]), (5, Vec::new())];
    let topics = TopicEndpoints::restored(&state.endpoints, excluded.into());
    assert!(topics.excluded().is_empty());
    assert_eq!(topics.of(key).collect::<Vec<_>>(), [(A, 1)]);
}

#[test]
fn offers_of_departed_writers_are_remembered_while_topic_exists() {
    let mut state = Discovery::default();
    let reader = endpoint(EndpointKind::Reader, "a", TopicLevel::Atomic);
    let key = say(&mut state, A, 1, Some(reader))[0];
    let policies = EndpointPolicies::of_departed(TopicLevel::Kept).into();
    let default = endpoint(EndpointKind::Writer, "a", TopicLevel::Atomic);
    let writer = Endpoint { policies, ..default.clone() };
    for (node, endpoint) in [(B, writer.clone()), (NodeId(3), default)] {
        say(&mut state, node, 7, Some(endpoint));
        state.forget(node);
    }
    let remembered = |state: &Discovery| state.writers_once(key).count();
    assert_eq!(remembered(&state), 1, "departed writer with usual policies is not remembered");
    let mut other = Discovery::default();
    assert!(other.restore(&state.snapshot()));
    assert_eq!((remembered(&other), other.snapshot()), (1, state.snapshot()));
    for node in 0..MOST_LEFT as u128 {
        say(&mut state, NodeId(9 + node), 7, Some(writer.clone()));
        state.forget(NodeId(9 + node));
    }
    assert_eq!(remembered(&state), MOST_LEFT);
    state.forget(A);
    assert_eq!((remembered(&state), state.retired.len()), (0, 0));
}

#[test]
fn discovery_ignores_truncated_announcement_and_malformed_snapshot() {
    let mut state = Discovery::default();
    let writer = endpoint(EndpointKind::Writer, "a", TopicLevel::Atomic);
    let announcement = Announcement::Endpoint(1, Some(writer));
    let bytes = announcement.to_bytes();
    for end in 0..bytes.len() {
        assert_eq!(state.apply(A, &bytes[..end]), []);
    }
    assert!(state.keys().is_empty() && state.nodes().next().is_none());
    assert!(!Discovery::default().restore(&[1, 2, 3]));
}
