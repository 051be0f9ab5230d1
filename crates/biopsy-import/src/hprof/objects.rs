//! The second reading: objects with their references.

use std::rc::Rc;

use biopsy_dotnet::graph::{GraphBuilder, HeapType, Node, TypeIndex};
use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::classes::Classes;
use super::records::{ClassRecord, Listener};
use super::stream::HprofError;
use super::types::{FieldType, Layout};

/// Most objects: the graph numbers them with 32 bits.
const MOST_OBJECTS: usize = u32::MAX as usize - 1;

/// Where the references of an object are, and how large it is.
#[derive(Debug)]
struct Shape {
    /// Offsets in the values of its fields.
    references: Vec<usize>,
    size: u64,
}

/// Collects objects.
pub(super) struct Objects<'a> {
    classes: &'a Classes,
    layout: Layout,
    shapes: FxHashMap<u64, Option<Rc<Shape>>>,
    types: FxHashMap<String, TypeIndex>,
    of_class: FxHashMap<u64, TypeIndex>,
    pub(super) builder: GraphBuilder,
    /// Objects whose class is not described.
    pub(super) strange: u64,
}

impl<'a> Objects<'a> {
    pub(super) fn new(classes: &'a Classes) -> Self {
        Self {
            classes,
            layout: classes.layout(),
            shapes: FxHashMap::default(),
            types: FxHashMap::default(),
            of_class: FxHashMap::default(),
            builder: GraphBuilder::new(),
            strange: 0,
        }
    }

    fn push(&mut self, object: Avma, of: TypeIndex, size: u64, edges: u32) -> Result<(), HprofError> {
        if self.builder.len() >= MOST_OBJECTS {
            return Err(HprofError::TooMany { what: "objects", limit: MOST_OBJECTS as u64 });
        }
        self.builder.push(Node { address: object, of, size, edges });
        Ok(())
    }

    fn type_named(&mut self, name: String) -> TypeIndex {
        if let Some(known) = self.types.get(&name) {
            return *known;
        }
        let of = self.builder.push_type(HeapType { name: name.clone(), ..HeapType::default() });
        self.types.insert(name, of);
        of
    }

    fn type_of(&mut self, class: u64) -> TypeIndex {
        if let Some(known) = self.of_class.get(&class) {
            return *known;
        }
        let of = self.type_named(self.classes.name_of(class));
        self.of_class.insert(class, of);
        of
    }

    fn shape_of(&mut self, class: u64) -> Option<Rc<Shape>> {
        let (classes, layout) = (self.classes, self.layout);
        let shape = self.shapes.entry(class).or_insert_with(|| {
            let fields = classes.fields_of(class)?;
            let (mut offset, mut references, mut bytes) = (0, Vec::new(), 0);
            for field in fields {
                if field == FieldType::Reference {
                    references.push(offset);
                }
                offset += usize::try_from(field.bytes(classes.id_bytes())).unwrap_or(usize::MAX);
                bytes += field.bytes(layout.reference);
            }
            Some(Rc::new(Shape { references, size: layout.object(bytes) }))
        });
        shape.clone()
    }

    /// The references that stand in a row of identifiers.
    fn link(&mut self, ids: impl Iterator<Item = u64>) -> u32 {
        let mut edges = 0;
        for id in ids.filter(|id| *id != 0) {
            self.builder.push_edge(Avma(id));
            edges += 1;
        }
        edges
    }

    fn id_at(&self, values: &[u8], offset: usize) -> Option<u64> {
        let values = values.get(offset..)?;
        if self.classes.id_bytes() == 8 {
            values.first_chunk().map(|eight| u64::from_be_bytes(*eight))
        } else {
            values.first_chunk().map(|four| u32::from_be_bytes(*four).into())
        }
    }
}

impl Listener for Objects<'_> {
    fn wide(&mut self, _wide: bool) {}

    fn class(&mut self, class: ClassRecord) -> Result<(), HprofError> {
        let of = self.type_named("java.lang.Class".to_owned());
        let edges = self.link(class.holds.iter().copied().chain([class.parent]));
        self.push(Avma(class.object), of, self.layout.object(class.static_bytes), edges)
    }

    fn instance(&mut self, object: Avma, class: u64, fields: &[u8]) -> Result<(), HprofError> {
        let of = self.type_of(class);
        let Some(shape) = self.shape_of(class) else {
            self.strange += 1;
            return self.push(object, of, self.layout.object(fields.len() as u64), 0);
        };
        // Those behind the end of its values are not looked for: short objects may have a class with thousands of fields.
        let ids: Vec<u64> = shape.references.iter().map_while(|offset| self.id_at(fields, *offset)).collect();
        // An object keeps its class alive.
        let edges = self.link(ids.into_iter().chain([class]));
        self.push(object, of, shape.size, edges)
    }

    fn references(&mut self, array: Avma, class: u64, elements: &[u8]) -> Result<(), HprofError> {
        let of = self.type_of(class);
        let step = usize::try_from(self.classes.id_bytes()).unwrap_or(8);
        let length = elements.len() / step;
        let mut edges = 0;
        for index in 0..length {
            let id = self.id_at(elements, index * step);
            edges += self.link(id.into_iter());
        }
        edges += self.link(std::iter::once(class));
        let size = self.layout.array(u32::try_from(length).unwrap_or(u32::MAX), FieldType::Reference);
        self.push(array, of, size, edges)
    }

    fn numbers(&mut self, array: Avma, length: u32, element: FieldType) -> Result<(), HprofError> {
        let of = self.type_named(format!("{}[]", element.name()));
        self.push(array, of, self.layout.array(length, element), 0)
    }
}
