from .checkpoint import Analysis as Analysis
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import CheckpointRecord as CheckpointRecord
from .checkpoint import TrainedModel as TrainedModel
from .checkpoint import digest_files as digest_files
from .checkpoint import find_analysis as find_analysis
from .checkpoint import latest_checkpoint as latest_checkpoint
from .checkpoint import load_optimizer as load_optimizer
from .checkpoint import load_weights as load_weights
from .checkpoint import newest_checkpoint as newest_checkpoint
from .checkpoint import output_record as output_record
from .checkpoint import outputs_from_records as outputs_from_records
from .checkpoint import write_checkpoint as write_checkpoint
from .checkpoint import write_json as write_json
from .devices import autocast as autocast
from .devices import check_name as check_name
from .devices import first_device as first_device
from .devices import flush_denormals as flush_denormals
from .devices import pick_device as pick_device
from .devices import pick_precision as pick_precision
from .devices import release_memory as release_memory
from .devices import require_device as require_device
from .devices import reuse_memory as reuse_memory
from .family import FAMILIES as FAMILIES
from .family import Batch as Batch
from .family import ColumnBatch as ColumnBatch
from .family import Family as Family
from .family import Item as Item
from .family import Losses as Losses
from .family import ModelConfig as ModelConfig
from .family import ModelReply as ModelReply
from .family import MultitaskNetwork as MultitaskNetwork
from .family import TextReader as TextReader
from .family import TooLongError as TooLongError
from .family import find_family as find_family
from .family import label_names as label_names
from .family import split_of as split_of
from .family import with_label_names as with_label_names
from .heads import ClassifierHead as ClassifierHead
from .heads import CrfHead as CrfHead
from .heads import GeneratorHead as GeneratorHead
from .heads import Head as Head
from .heads import ParserHead as ParserHead
from .heads import RegressorHead as RegressorHead
from .heads import SoftmaxHead as SoftmaxHead
from .heads import TaskHeads as TaskHeads
from .heads import encode_target as encode_target
from .heads import part_name as part_name
from .layers import BiLSTM as BiLSTM
from .layers import WordEmbedding as WordEmbedding
from .layers import max_over_time as max_over_time
from .layers import token_mask as token_mask
from .portable import PortableVectors as PortableVectors
from .portable import export_checkpoint as export_checkpoint
from .portable import write_portable as write_portable
from .portable import write_vectors as write_vectors
from .tensors import build_network as build_network
from .tensors import check_size as check_size

__all__ = [
    "FAMILIES",
    "Analysis",
    "Batch",
    "BiLSTM",
    "Checkpoint",
    "CheckpointRecord",
    "ClassifierHead",
    "ColumnBatch",
    "CrfHead",
    "Family",
    "GeneratorHead",
    "Head",
    "Item",
    "Losses",
    "ModelConfig",
    "ModelReply",
    "MultitaskNetwork",
    "ParserHead",
    "PortableVectors",
    "RegressorHead",
    "SoftmaxHead",
    "TaskHeads",
    "TextReader",
    "TooLongError",
    "TrainedModel",
    "WordEmbedding",
    "autocast",
    "build_network",
    "check_name",
    "check_size",
    "digest_files",
    "encode_target",
    "export_checkpoint",
    "find_analysis",
    "find_family",
    "first_device",
    "flush_denormals",
    "label_names",
    "latest_checkpoint",
    "load_optimizer",
    "load_weights",
    "max_over_time",
    "newest_checkpoint",
    "output_record",
    "outputs_from_records",
    "part_name",
    "pick_device",
    "pick_precision",
    "release_memory",
    "require_device",
    "reuse_memory",
    "split_of",
    "token_mask",
    "with_label_names",
    "write_checkpoint",
    "write_json",
    "write_portable",
    "write_vectors",
]
