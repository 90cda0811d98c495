//! Meaning of valid expressions, and errors of invalid ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dds_sql::{
    Condition, DEEPEST, FieldName, Literal, OperandKind, Predicate, Query, Relation, Selection,
};
use proptest::prelude::*;

/// A condition with all its parentheses.
fn shown(condition: &Condition) -> String {
    let joined = |many: &[Condition], word: &str| {
        let many: Vec<String> = many.iter().map(shown).collect();
        format!("({})", many.join(word))
    };
    match condition {
        Condition::And(all) => joined(all, " AND "),
        Condition::Or(any) => joined(any, " OR "),
        Condition::Not(inner) => format!("NOT {}", shown(inner)),
        Condition::Test(Predicate::Compare(left, relation, right)) => {
            format!("{} {} {}", value(&left.kind), sign(*relation), value(&right.kind))
        }
        Condition::Test(Predicate::Between(of, low, high)) => {
            let (low, high) = (value(&low.kind), value(&high.kind));
            format!("{} BETWEEN {low} AND {high}", value(&of.kind))
        }
        Condition::Test(Predicate::Like(of, pattern)) => {
            format!("{} LIKE {}", value(&of.kind), value(&pattern.kind))
        }
        Condition::Test(Predicate::Match(of, patterns)) => {
            format!("{} MATCH {}", value(&of.kind), value(&patterns.kind))
        }
    }
}

fn sign(relation: Relation) -> &'static str {
    match relation {
        Relation::Equal => "=",
        Relation::NotEqual => "<>",
        Relation::Less => "<",
        Relation::LessOrEqual => "<=",
        Relation::Greater => ">",
        Relation::GreaterOrEqual => ">=",
    }
}

fn value(operand: &OperandKind) -> String {
    match operand {
        OperandKind::Field(field) => field.to_string(),
        OperandKind::Literal(literal) => literal.to_string(),
        OperandKind::Parameter(number) => format!("%{number}"),
    }
}

fn parsed(text: &str) -> String {
    shown(&Condition::parse(text).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn not_binds_before_and_and_before_or() {
    assert_eq!(parsed("a = 1 OR b = 2 AND NOT c = 3"), "(a = 1 OR (b = 2 AND NOT c = 3))");
    assert_eq!(parsed("(a = 1 OR b = 2) AND c = 3"), "((a = 1 OR b = 2) AND c = 3)");
    assert_eq!(parsed("not not a=1"), "NOT NOT a = 1");
}

#[test]
fn every_relation_and_every_kind_of_value_is_read() {
    for (text, same) in [
        ("x <> -4", "x <> -4"),
        ("x != 0xFF", "x <> 255"),
        ("%0 >= y", "%0 >= y"),
        ("a.b[3].c < d[0]", "a.b[3].c < d[0]"),
        ("a[1][2] = 3", "a[1][2] = 3"),
        ("a['b.c[0]'].d = 3", "a['b.c[0]'].d = 3"),
        ("a[\"it's\"][-7][RED] = 3", "a[\"it's\"][-7]['RED'] = 3"),
        ("f <= 1.5e3", "f <= 1.5e3"),
        ("f > -.5", "f > -.5"),
        ("s = 'it''s'", "s = 'it's'"),
        ("ok = TRUE", "ok = TRUE"),
        ("t between %1 AND %99", "t BETWEEN %1 AND %99"),
        ("t NOT BETWEEN 1 AND 2", "NOT t BETWEEN 1 AND 2"),
        ("colour BETWEEN RED AND BLUE", "colour BETWEEN RED AND BLUE"),
        ("name LIKE 'F-%'", "name LIKE 'F-%'"),
        ("'F-1' LIKE name", "'F-1' LIKE name"),
        ("name LIKE b.c", "name LIKE b.c"),
        ("name LIKE other", "name LIKE other"),
        ("name not match 'F-*,D-*'", "NOT name MATCH 'F-*,D-*'"),
        ("name not like %3", "NOT name LIKE %3"),
        ("18446744073709551615 = big", "18446744073709551615 = big"),
        ("höhe>0", "höhe > 0"),
    ] {
        assert_eq!(parsed(text), same);
    }
}

const IN_BRACKETS: &str =
    "in brackets stands the number of an element, or the key of a map's entry: `[0]`, `['a']`";

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, at, reason) in [
        ("", 0, "a member or a value was expected, found the end"),
        ("a >> 3", 3, "a member or a value was expected, found `>`"),
        ("a = ", 4, "a member or a value was expected, found the end"),
        ("a = 1 b = 2", 6, "AND, OR or the end was expected, found `b`"),
        ("(a = 1", 0, "this parenthesis is not closed"),
        ("a = 1)", 5, "AND, OR or the end was expected, found `)`"),
        ("a = 'x", 4, "this text has no closing quote"),
        ("a = %", 4, "a parameter is %0 to %99"),
        ("a = %100", 4, "a parameter is %0 to %99"),
        (
            "1 = 1",
            0,
            "two values are compared here, and none of them is a member; an empty expression \
             selects all samples",
        ),
        ("a.", 1, "a member's name was expected behind the dot"),
        ("a[] = 1", 1, IN_BRACKETS),
        ("a[1 = 1", 1, IN_BRACKETS),
        ("a['x] = 1", 1, IN_BRACKETS),
        ("a['x'.b] = 1", 1, IN_BRACKETS),
        ("a[1.5] = 1", 1, IN_BRACKETS),
        ("a NOT = 1", 6, "BETWEEN, LIKE or MATCH was expected, found `=`"),
        ("3 LIKE 'x'", 0, "a member was expected before or after LIKE"),
        ("a MATCH b.c", 8, "a value was expected here, and this is a member"),
        ("a BETWEEN 1", 11, "AND was expected, found the end"),
        ("a BETWEEN 1 OR 2", 12, "AND was expected, found `OR`"),
        ("a = 12x", 4, "`12x` is no number"),
        ("a = 1.2.3", 4, "`1.2.3` is no number"),
        ("a = 1e", 4, "`1e` is no number"),
        ("a = -", 4, "`-` is no number"),
        ("a = 18446744073709551616", 4, "this is no number of up to 64 bits"),
        ("a = 0x", 4, "this is no number of up to 64 bits"),
        ("a = 0xx", 4, "this is no number of up to 64 bits"),
        ("a = 1e9999", 4, "`1e9999` is no number"),
        ("a # 1", 2, "`#` means nothing here"),
        ("AND = 1", 0, "a member or a value was expected, found `AND`"),
    ] {
        let error = Condition::parse(text).unwrap_err();
        assert_eq!((error.position(), error.reason()), (at, reason), "{text}");
    }
}

#[test]
fn an_error_points_at_its_place() {
    let error = Condition::parse("höhe > 3 AND tiefe >> 4").unwrap_err();
    let told = "at character 21: a member or a value was expected, found `>`\n  \
                höhe > 3 AND tiefe >> 4\n                      ^";
    assert_eq!(error.to_string(), told);
}

#[test]
fn nesting_and_length_have_limits() {
    let deep = |depth: usize| format!("{}a = 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Condition::parse(&deep(DEEPEST)).is_ok());
    let error = Condition::parse(&deep(DEEPEST + 2)).unwrap_err();
    assert_eq!(error.reason(), "an expression is nested 64 deep at most");
    assert!(Condition::parse(&"NOT ".repeat(10_000)).is_err());
    let wide = vec!["a = 1"; 5_000].join(" AND ");
    assert!(Condition::parse(&wide).is_ok());
    let error = Condition::parse(&"a".repeat(1 << 17)).unwrap_err();
    assert!(error.reason().contains("65536 bytes at most"), "{error}");
}

#[test]
fn a_query_may_have_an_order_and_no_condition() {
    let names = |query: &Query| -> Vec<String> {
        query.order_by.iter().map(|(field, _): &(FieldName, usize)| field.to_string()).collect()
    };
    let query = Query::parse("height > 100 ORDER BY position.x, name").unwrap();
    assert!(query.condition.is_some());
    assert_eq!(names(&query), ["position.x", "name"]);
    let query = Query::parse("order by name").unwrap();
    assert_eq!((query.condition.is_none(), names(&query).len()), (true, 1));
    assert_eq!(Query::parse("  ").unwrap(), Query::default());
    assert_eq!(Query::parse("ORDER name").unwrap_err().reason(), "BY was expected, found `name`");
    assert!(Query::parse("a = 1 ORDER BY").is_err());
}

#[test]
fn a_topic_expression_names_members_and_topics() {
    let text = "SELECT flight_id, x AS east, y north FROM Position NATURAL JOIN 'Flight Plan' \
                WHERE height < %0;";
    let selection = Selection::parse(text).unwrap();
    let columns: Vec<(String, Option<&str>)> = selection
        .columns
        .iter()
        .map(|column| (column.field.to_string(), column.name.as_deref()))
        .collect();
    let (east, north) = (Some("east"), Some("north"));
    assert_eq!(
        columns,
        [("flight_id".to_owned(), None), ("x".to_owned(), east), ("y".to_owned(), north)]
    );
    let topics: Vec<&str> = selection.topics.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(topics, ["Position", "Flight Plan"]);
    assert!(selection.condition.is_some());
    let text = "select * from A inner natural join B natural inner join (C natural join D)";
    let selection = Selection::parse(text).unwrap();
    assert_eq!((selection.columns.len(), selection.topics.len()), (0, 4));
    for wrong in
        ["SELECT FROM A", "SELECT * A", "SELECT * FROM A JOIN B", "SELECT * FROM A NATURAL JOIN (B"]
    {
        assert!(Selection::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_parameter_is_one_value() {
    assert_eq!(Literal::parse(" -3 ").unwrap(), Literal::Integer(-3));
    assert_eq!(Literal::parse("'RED'").unwrap(), Literal::Quoted("RED".to_owned()));
    assert_eq!(Literal::parse("RED").unwrap(), Literal::Word("RED".to_owned()));
    for wrong in ["", "1 2", "%1", "a.b", "=", "'x"] {
        assert!(Literal::parse(wrong).is_err(), "{wrong}");
    }
}

/// Pieces of expressions, so that many random combinations are almost valid.
const PIECES: [&str; 22] = [
    "a", "b.c", "d[2]", "=", "<>", "<", "LIKE", "BETWEEN", "AND", "OR", "NOT", "(", ")", "1",
    "-2.5", "'x'", "%0", "ORDER", "BY", "SELECT", "FROM", ",",
];

proptest! {
    #[test]
    fn nothing_makes_it_fall(text in "\\PC{0,80}") {
        let _ = Condition::parse(&text);
        let _ = Query::parse(&text);
        let _ = Selection::parse(&text);
        let _ = Literal::parse(&text);
    }

    #[test]
    fn what_is_read_is_read_again(pieces in proptest::collection::vec(0..PIECES.len(), 1..24)) {
        let pieces: Vec<&str> = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let text = pieces.join(" ");
        match Condition::parse(&text) {
            Ok(condition) => {
                let again = Condition::parse(&shown(&condition)).unwrap();
                prop_assert_eq!(shown(&again), shown(&condition));
            }
            Err(error) => prop_assert!(error.position() <= text.len()),
        }
        if let Ok(query) = Query::parse(&text) {
            prop_assert!(query.condition.is_some() || !query.order_by.is_empty());
        }
    }
}
