//! A file as elements with their positions.
//!
//! Owns: the accepted subset of XML, and the limits that bound the reading time for any file: no
//! document type (hence no entities, and no external content), one encoding, bounded depth, names,
//! attributes and texts. Never does: interpret an element.

use super::error::{LineColumn, UnplacedError, quoted};
use super::variables::Variables;
use std::borrow::Cow;
use xml::common::{Position, TextPosition};
use xml::reader::{ErrorKind, EventReader, ParserConfig, XmlEvent};

/// Maximum size of a file.
pub(super) const LARGEST_FILE: usize = 32 << 20;
/// Maximum nesting depth of elements.
const DEEPEST: usize = 24;
/// Maximum number of elements in one entity's policies: more than any valid one, few enough to hold
/// in memory.
const MOST_ELEMENTS: usize = 1 << 16;
/// Maximum length of the name of an element or attribute, in bytes.
const LONGEST_NAME: usize = 256;
/// Maximum length of the value of an attribute, in bytes.
const LONGEST_ATTRIBUTE: usize = 4096;
/// Maximum number of attributes of an element.
const MOST_ATTRIBUTES: usize = 16;
/// Maximum length of a text or comment, in bytes; enough for the largest policy data
/// in hexadecimal.
const LONGEST_TEXT: usize = 1 << 20;
/// Namespaces of profiles from the OMG and other products.
const NAMESPACES: [&str; 7] = [
    "http://www.omg.org/spec/DDS-XML",
    "http://www.omg.org/dds",
    "http://www.omg.org/dds/",
    "http://www.rti.com/dds",
    "http://www.eprosima.com",
    "http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles",
    "http://www.eprosima.com/XMLSchemas/fastDDS_Profiles",
];

/// An element with its contents.
#[derive(Clone)]
pub(super) struct Element {
    pub(super) name: String,
    /// Name in messages, for an element that is read under another name.
    pub(super) written: Option<String>,
    /// Attributes without a namespace; those of XML and of schemas are left out.
    pub(super) attributes: Vec<(String, String)>,
    /// Text without surrounding white space.
    pub(super) text: String,
    pub(super) children: Vec<Element>,
    pub(super) at: LineColumn,
}

impl Element {
    /// Returns the value of an attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the name in messages: as the file has it.
    pub(super) fn written(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.name)
    }

    /// Returns an element without attributes and contents at the same position.
    pub(super) fn empty(&self) -> Element {
        Element {
            name: self.name.clone(),
            written: self.written.clone(),
            attributes: Vec::new(),
            text: String::new(),
            children: Vec::new(),
            at: self.at,
        }
    }

    /// Returns the element under another name. Messages name the file's element, with the prefix.
    pub(super) fn renamed(&self, name: &str, prefix: &str) -> Element {
        let written = Some(format!("{prefix}{}", self.name));
        Element { name: name.to_owned(), written, ..self.clone() }
    }
}

/// Error after which reading cannot continue.
pub(super) struct FatalXmlError {
    pub(super) at: LineColumn,
    pub(super) error: UnplacedError,
}

/// Next item of a file.
pub(super) enum XmlItem {
    /// An element begins; its contents follow.
    Open(Element),
    /// The innermost open element ends.
    Close,
    /// Text other than white space, directly in the innermost open element.
    Text(String, LineColumn),
    /// End of the file.
    End,
}

/// Reader of a file's elements in sequence.
pub(super) struct ElementReader<'a> {
    events: EventReader<&'a [u8]>,
    /// Position of the root; for a file without a declaration, the reader reports its end instead.
    root: LineColumn,
    /// Namespace of the root, once the root has been read.
    namespace: Option<Option<String>>,
    depth: usize,
    /// Values of variables in attributes and texts.
    variables: Variables,
    /// Names of the open elements, separated by `/`, and the offset of each.
    open: String,
    begins: Vec<usize>,
}

impl<'a> ElementReader<'a> {
    /// Begins to read. A file that is not UTF-8 or too large is refused as a whole.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, FatalXmlError> {
        if bytes.len() > LARGEST_FILE {
            let found = format!("the file has {} bytes", bytes.len());
            let expected = format!("expected {LARGEST_FILE} at most");
            return Err(FatalXmlError {
                at: LineColumn::default(),
                error: UnplacedError::new(found, expected),
            });
        }
        if let Err(error) = std::str::from_utf8(bytes) {
            let valid = &bytes[..error.valid_up_to()];
            let fault = UnplacedError::new(
                format!("found the byte 0x{:02x}, which is not UTF-8", bytes[valid.len()]),
                "expected a file in UTF-8",
            );
            return Err(FatalXmlError { at: end_of(valid), error: fault });
        }
        let config = ParserConfig::new()
            .trim_whitespace(true)
            .cdata_to_characters(true)
            .allow_multiple_root_elements(false)
            .max_entity_expansion_length(1024)
            .max_entity_expansion_depth(1)
            .max_name_length(LONGEST_NAME)
            .max_attributes(MOST_ATTRIBUTES)
            .max_attribute_length(LONGEST_ATTRIBUTE)
            .max_data_length(LONGEST_TEXT);
        let root = end_of(&bytes[..before_root(bytes)]);
        Ok(Self {
            events: config.create_reader(bytes),
            root,
            namespace: None,
            depth: 0,
            variables: Variables::default(),
            open: String::new(),
            begins: Vec::new(),
        })
    }

    /// Inserts the values of variables from now on.
    pub(super) fn use_variables(&mut self, variables: Variables) {
        self.variables = variables;
    }

    /// Takes the errors in the use of variables.
    pub(super) fn variable_errors(&mut self) -> Vec<(LineColumn, UnplacedError)> {
        self.variables.take_errors()
    }

    /// Returns the path of the open elements.
    pub(super) fn path(&self) -> &str {
        &self.open
    }

    /// Returns the next element, text or end.
    pub(super) fn next(&mut self) -> Result<XmlItem, FatalXmlError> {
        loop {
            let event = self.events.next().map_err(|error| broken(&error))?;
            let at = position(self.events.position());
            let refuse = |found: String, expected: &str| FatalXmlError {
                at,
                error: UnplacedError::new(found, expected),
            };
            match event {
                XmlEvent::StartDocument { encoding, .. } if !is_utf8(&encoding) => {
                    let found = format!("found the encoding {}", quoted(&encoding));
                    return Err(refuse(found, "expected UTF-8"));
                }
                XmlEvent::Doctype { .. } => {
                    return Err(refuse(
                        "found a document type declaration".to_owned(),
                        "expected none: entities are not expanded, and nothing is read from elsewhere",
                    ));
                }
                XmlEvent::StartElement { name, attributes, .. } => {
                    let at = if self.namespace.is_none() { self.root } else { at };
                    self.depth += 1;
                    if self.depth > DEEPEST {
                        let found = format!("found elements nested {} deep", self.depth);
                        return Err(refuse(found, &format!("expected {DEEPEST} at most")));
                    }
                    self.check_namespace(name.namespace.as_deref())
                        .map_err(|fault| FatalXmlError { at, error: fault })?;
                    let attributes = attributes
                        .into_iter()
                        .filter(|attribute| attribute.name.namespace.is_none())
                        .map(|attribute| {
                            let value = self.variables.insert(attribute.value, at);
                            (attribute.name.local_name, value)
                        })
                        .collect();
                    self.begins.push(self.open.len());
                    if self.depth > 1 {
                        self.open.push('/');
                    }
                    self.open.push_str(&name.local_name);
                    return Ok(XmlItem::Open(Element {
                        name: name.local_name,
                        written: None,
                        attributes,
                        text: String::new(),
                        children: Vec::new(),
                        at,
                    }));
                }
                XmlEvent::EndElement { .. } => {
                    self.depth -= 1;
                    self.open.truncate(self.begins.pop().unwrap_or(0));
                    return Ok(XmlItem::Close);
                }
                XmlEvent::Characters(text) => {
                    return Ok(XmlItem::Text(self.variables.insert(text, at), at));
                }
                XmlEvent::EndDocument => return Ok(XmlItem::End),
                // Comments are left out and white space is trimmed; processing instructions for
                // other programs are ignored.
                _ => {}
            }
        }
    }

    /// Reads the rest of an open element.
    pub(super) fn rest(&mut self, element: Element) -> Result<Element, FatalXmlError> {
        self.fill(element, &mut 0)
    }

    fn fill(&mut self, mut element: Element, count: &mut usize) -> Result<Element, FatalXmlError> {
        loop {
            match self.next()? {
                XmlItem::Open(inner) => {
                    *count += 1;
                    if *count > MOST_ELEMENTS {
                        let found = format!("found more than {MOST_ELEMENTS} elements in one");
                        let error = UnplacedError::new(found, "expected fewer");
                        return Err(FatalXmlError { at: inner.at, error });
                    }
                    let inner = self.fill(inner, count)?;
                    element.children.push(inner);
                }
                XmlItem::Text(text, _) if element.text.is_empty() => element.text = text,
                XmlItem::Text(text, _) => {
                    element.text.push(' ');
                    element.text.push_str(&text);
                }
                XmlItem::Close | XmlItem::End => return Ok(element),
            }
        }
    }

    /// Skips the rest of an open element.
    pub(super) fn skip(&mut self) -> Result<(), FatalXmlError> {
        let end = self.depth - 1;
        while self.depth > end {
            self.next()?;
        }
        Ok(())
    }

    /// Checks that all elements have the namespace of the root, or another known one: products put
    /// theirs on an element within the root, too.
    fn check_namespace(&mut self, namespace: Option<&str>) -> Result<(), UnplacedError> {
        if let Some(root) = &self.namespace {
            let is_known = namespace.is_some_and(|uri| NAMESPACES.contains(&uri));
            if is_known || root.as_deref() == namespace {
                return Ok(());
            }
            let name = |namespace: Option<&str>| {
                namespace.map_or(Cow::from("no namespace"), |uri| quoted(uri).into())
            };
            return Err(UnplacedError::new(
                format!("found an element of {}", name(namespace)),
                format!("expected {}, as the root has", name(root.as_deref())),
            ));
        }
        if let Some(uri) = namespace.filter(|uri| !NAMESPACES.contains(uri)) {
            return Err(UnplacedError::new(
                format!("found the namespace {}", quoted(uri)),
                format!("expected none or `{}`", NAMESPACES[0]),
            ));
        }
        self.namespace = Some(namespace.map(str::to_owned));
        Ok(())
    }
}

fn is_utf8(encoding: &str) -> bool {
    // ASCII is also UTF-8.
    let encoding = encoding.to_ascii_uppercase();
    matches!(encoding.as_str(), "UTF-8" | "UTF8" | "US-ASCII" | "ASCII")
}

fn position(position: TextPosition) -> LineColumn {
    let from_one = |number: u64| u32::try_from(number + 1).unwrap_or(u32::MAX);
    LineColumn { line: from_one(position.row()), column: from_one(position.column()) }
}

/// Returns the number of bytes before the root element.
fn before_root(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'<') {
        at += next;
        let end: &[u8] = match &bytes[at..] {
            [b'<', b'?', ..] => b"?>",
            [b'<', b'!', ..] => b"-->",
            _ => return at,
        };
        match bytes[at..].windows(end.len()).position(|window| window == end) {
            Some(length) => at += length,
            None => break,
        }
    }
    at
}

/// Returns the position after a text.
fn end_of(text: &[u8]) -> LineColumn {
    let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
    let start = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = String::from_utf8_lossy(&text[start..]);
    // A byte order mark is not a character of the text.
    let column = line.trim_start_matches('\u{feff}').chars().count() as u64;
    let mut end = TextPosition::new();
    end.row = lines;
    end.column = column;
    position(end)
}

fn broken(error: &xml::reader::Error) -> FatalXmlError {
    let at = position(error.position());
    let fault = match error.kind() {
        ErrorKind::Syntax(what) if what.contains("larger/more complex") => UnplacedError::new(
            "found a name, attribute, text or list of attributes beyond the limits",
            format!(
                "expected names of {LONGEST_NAME} bytes, {MOST_ATTRIBUTES} attributes of \
                 {LONGEST_ATTRIBUTE} bytes and texts of {LONGEST_TEXT} bytes at most"
            ),
        ),
        ErrorKind::UnexpectedEof => {
            UnplacedError::new("the file ends too soon", "expected every element to be closed")
        }
        ErrorKind::Syntax(what) => UnplacedError::new(
            format!("found no well-formed XML ({})", what.lines().next().unwrap_or_default()),
            "expected elements that are closed in the order in which they were opened, and &lt; &amp; in texts",
        ),
        other => UnplacedError::new(
            format!("the file cannot be read ({other:?})"),
            "expected XML in UTF-8",
        ),
    };
    FatalXmlError { at, error: fault }
}
