//! Heaps of any shape, written with identifiers of four and of eight bytes, and what is to be read of them.

use std::io::Cursor;

use biopsy_dotnet::graph::RootKind;
use biopsy_model::Avma;
use proptest::prelude::*;

use super::super::read_from;

/// Numbers of types of fields: a reference, and all others with their bytes.
const REFERENCE: u8 = 2;
const OTHERS: [(u8, u64); 8] = [(4, 1), (5, 2), (6, 4), (7, 8), (8, 1), (9, 2), (10, 4), (11, 8)];

#[derive(Clone, Debug)]
struct Heap {
    wide: bool,
    /// Each with its parent, which is before it, and the types of its own fields.
    classes: Vec<(Option<usize>, Vec<u8>)>,
    /// Each with its class, and what its fields refer to: objects, or, behind the last one, nothing or nobody.
    objects: Vec<(usize, Vec<usize>)>,
    /// Objects that roots of these kinds keep.
    roots: Vec<(u8, usize)>,
}

fn heap() -> impl Strategy<Value = Heap> {
    let field =
        prop_oneof![2 => Just(REFERENCE), 1 => prop::sample::select(OTHERS.map(|(kind, _)| kind).to_vec())];
    let class = (any::<prop::sample::Index>(), any::<bool>(), prop::collection::vec(field, 0..5));
    let object = (any::<prop::sample::Index>(), prop::collection::vec(any::<prop::sample::Index>(), 20));
    let root = (prop::sample::select(vec![0xff_u8, 1, 2, 3, 4, 5, 6, 7, 8]), any::<prop::sample::Index>());
    (
        any::<bool>(),
        prop::collection::vec(class, 1..5),
        prop::collection::vec(object, 1..12),
        prop::collection::vec(root, 0..4),
    )
        .prop_map(|(wide, classes, objects, roots)| Heap {
            wide,
            roots: roots.into_iter().map(|(kind, of)| (kind, of.index(objects.len()))).collect(),
            objects: objects
                .iter()
                .map(|(of, to)| {
                    (of.index(classes.len()), to.iter().map(|to| to.index(objects.len() + 2)).collect())
                })
                .collect(),
            classes: classes
                .into_iter()
                .enumerate()
                .map(|(number, (parent, has_parent, fields))| {
                    ((has_parent && number > 0).then(|| parent.index(number)), fields)
                })
                .collect(),
        })
}

fn class_at(number: usize) -> u64 {
    0x1000 + number as u64 * 0x100
}

impl Heap {
    /// Where an object is; behind the last one: nowhere, and where nothing lies.
    fn address(&self, number: usize) -> u64 {
        match number.checked_sub(self.objects.len()) {
            None => 0x10_0000 + number as u64 * 0x100,
            Some(0) => 0,
            Some(_) => 0x7777_0000,
        }
    }

    fn id(&self, id: u64) -> Vec<u8> {
        if self.wide { id.to_be_bytes().to_vec() } else { (id as u32).to_be_bytes().to_vec() }
    }

    /// All fields of objects of a class: its own, then those of its parents.
    fn fields(&self, class: usize) -> Vec<u8> {
        let (parent, own) = &self.classes[class];
        let mut fields = own.clone();
        if let Some(parent) = parent {
            fields.extend(self.fields(*parent));
        }
        fields
    }

    /// What the fields of an object refer to.
    fn targets(&self, number: usize) -> Vec<usize> {
        let (class, to) = &self.objects[number];
        let references = self.fields(*class).iter().filter(|kind| **kind == REFERENCE).count();
        to.iter().copied().cycle().take(references).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"JAVA PROFILE 1.0.1\0".to_vec();
        bytes.extend(if self.wide { 8_u32 } else { 4 }.to_be_bytes());
        bytes.extend([0; 8]);
        let mut record = |tag: u8, body: &[u8]| {
            bytes.push(tag);
            bytes.extend([0; 4]);
            bytes.extend((body.len() as u32).to_be_bytes());
            bytes.extend(body);
        };
        let mut body = Vec::new();
        for (kind, object) in &self.roots {
            body.push(*kind);
            body.extend(self.id(self.address(*object)));
            let behind = match kind {
                1 => self.id(0).len(),
                2 | 3 | 8 => 8,
                4 | 6 => 4,
                _ => 0,
            };
            body.extend(vec![0xee; behind]);
        }
        for (number, (parent, fields)) in self.classes.iter().enumerate() {
            let name = format!("app/C{number}");
            record(0x01, &[self.id(number as u64 + 1), name.into_bytes()].concat());
            let class = self.id(class_at(number));
            record(0x02, &[vec![0; 4], class.clone(), vec![0; 4], self.id(number as u64 + 1)].concat());
            body.push(0x20);
            body.extend(class);
            body.extend([0; 4]);
            body.extend(self.id(parent.map_or(0, class_at)));
            body.extend(self.id(0).repeat(5));
            // Size of objects; one constant, a text of two bytes; one static number.
            body.extend([0, 0, 0, 0, 0, 1, 0, 7, 5, 0xee, 0xee, 0, 1]);
            body.extend(self.id(9));
            body.extend([10, 0xee, 0xee, 0xee, 0xee]);
            body.extend((fields.len() as u16).to_be_bytes());
            for kind in fields {
                body.extend(self.id(9));
                body.push(*kind);
            }
        }
        record(0x1c, &body);
        // A second part of the same.
        body.clear();
        for (number, (class, _)) in self.objects.iter().enumerate() {
            let mut targets = self.targets(number).into_iter();
            let values = self.fields(*class).into_iter().flat_map(|kind| {
                let other = OTHERS.iter().find(|(other, _)| *other == kind);
                match other {
                    Some((_, bytes)) => vec![0xee; *bytes as usize],
                    None => self.id(self.address(targets.next().expect("as many as fields"))),
                }
            });
            let values: Vec<u8> = values.collect();
            body.push(0x21);
            body.extend(self.id(self.address(number)));
            body.extend([0; 4]);
            body.extend(self.id(class_at(*class)));
            body.extend((values.len() as u32).to_be_bytes());
            body.extend(values);
        }
        record(0x1c, &body);
        // Of another kind, which is passed over.
        record(0x05, &[1, 2, 3]);
        bytes
    }

    /// Bytes of an object, as HotSpot lays them out by default.
    fn size(&self, class: usize) -> u64 {
        let header = if self.wide { 12 } else { 8 };
        let bytes = |kind: &u8| OTHERS.iter().find(|(other, _)| other == kind).map_or(4, |(_, bytes)| *bytes);
        (header + self.fields(class).iter().map(bytes).sum::<u64>()).next_multiple_of(8)
    }

    /// Objects that roots reach, by asking again until nothing changes.
    fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.objects.len()];
        self.roots.iter().for_each(|(_, object)| live[*object] = true);
        for _ in 0..self.objects.len() {
            for number in 0..self.objects.len() {
                if live[number] {
                    let targets = self.targets(number).into_iter().filter(|to| *to < self.objects.len());
                    targets.for_each(|to| live[to] = true);
                }
            }
        }
        live
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(heap in heap()) {
        let bytes = heap.bytes();
        let (graph, facts) = read_from(Cursor::new(&bytes), Cursor::new(&bytes)).expect("it is whole");
        prop_assert_eq!(graph.len(), heap.objects.len() + heap.classes.len());
        let address = |of| graph.object(of).expect("an object").address.0;
        let live = heap.live();
        let mut nowhere = 0;
        for (number, (class, _)) in heap.objects.iter().enumerate() {
            let found = graph.find(Avma(heap.address(number))).expect("it is there");
            let object = graph.object(found).expect("it is there");
            let of = graph.type_of(object.of).map(|of| of.name.clone());
            prop_assert_eq!((of, object.size), (Some(format!("app.C{class}")), heap.size(*class)));
            let targets = heap.targets(number);
            nowhere += targets.iter().filter(|to| **to == heap.objects.len() + 1).count() as u64;
            let of_fields = targets.iter().filter(|to| **to < heap.objects.len()).map(|to| heap.address(*to));
            let wanted: Vec<u64> = of_fields.chain([class_at(*class)]).collect();
            let references: Vec<u64> = graph.references(found).unwrap().into_iter().map(address).collect();
            prop_assert_eq!(references, wanted);
            prop_assert_eq!(graph.live().expect("marked").contains(found.0 as usize), live[number]);
        }
        for (number, (parent, _)) in heap.classes.iter().enumerate() {
            let found = graph.find(Avma(class_at(number))).expect("it is there");
            let references: Vec<u64> = graph.references(found).unwrap().into_iter().map(address).collect();
            prop_assert_eq!(references, parent.map(class_at).into_iter().collect::<Vec<_>>());
        }
        prop_assert!(facts.whole, "{:?}", facts);
        prop_assert_eq!(facts.dangling, nowhere);
        let kind = |kind: &u8| match kind {
            1 => RootKind::NativeGlobal,
            2 | 3 | 4 | 6 => RootKind::Stack,
            5 => RootKind::SystemClass,
            7 => RootKind::Monitor,
            8 => RootKind::Thread,
            _ => RootKind::Other,
        };
        let mut wanted: Vec<_> = heap.roots.iter().map(|(of, object)| (heap.address(*object), kind(of))).collect();
        wanted.sort();
        wanted.dedup();
        let roots: Vec<_> = graph.roots().iter().map(|root| (root.address.0, root.kind)).collect();
        prop_assert_eq!(roots, wanted);
    }
}
