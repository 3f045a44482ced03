//! stub
#[derive(Clone, Debug)]
pub struct Filter;
pub(crate) enum Verdict {
    None,
    All,
    Some,
}
impl Filter {
    pub fn canonical(&self) -> String {
        String::new()
    }
    pub fn columns(&self) -> Vec<String> {
        vec![]
    }
    pub fn validate(&self, _: &crate::catalog::Catalog) -> crate::Result<()> {
        Ok(())
    }
    pub(crate) fn prune(&self, _: &crate::catalog::Catalog, _: usize) -> Verdict {
        Verdict::Some
    }
    pub(crate) fn evaluate(
        &self,
        _: &arrow::array::RecordBatch,
    ) -> crate::Result<arrow::buffer::BooleanBuffer> {
        unimplemented!()
    }
}
