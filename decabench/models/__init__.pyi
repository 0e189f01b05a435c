from .answering import Answerer as Answerer
from .answering import autocast as autocast
from .answering import by_length as by_length
from .answering import kept_characters as kept_characters
from .answering import pick_device as pick_device
from .batches import NO_ANSWER as NO_ANSWER
from .batches import Batch as Batch
from .batches import Collator as Collator
from .batches import Encoded as Encoded
from .batches import VectorTable as VectorTable
from .decoding import greedy as greedy
from .decoding import word_numbers as word_numbers
from .devices import check_name as check_name
from .devices import first_device as first_device
from .devices import require_device as require_device
from .mqan import MQAN as MQAN
from .mqan import ModelConfig as ModelConfig
from .ngrams import Corpus as Corpus
from .ngrams import NgramTraining as NgramTraining
from .ngrams import read_corpus as read_corpus
from .ngrams import train_ngrams as train_ngrams
from .saved import BEST as BEST
from .saved import FORMAT as FORMAT
from .saved import LATEST as LATEST
from .saved import MODEL as MODEL
from .saved import RECORD as RECORD
from .saved import VOCABULARY as VOCABULARY
from .saved import Saved as Saved
from .saved import join_vectors as join_vectors
from .saved import load_weights as load_weights
from .vectors import Joined as Joined
from .vectors import Vectors as Vectors
from .vectors import Words as Words
from .vectors import index_path as index_path
from .vectors import is_line as is_line
from .vectors import open_vectors as open_vectors
from .vectors import write_matrix as write_matrix
from .vectors import write_ngrams as write_ngrams
from .vectors import write_words as write_words
from .words import EOS as EOS
from .words import SPECIALS as SPECIALS
from .words import Ids as Ids
from .words import Lexicon as Lexicon

__all__ = [
    "BEST",
    "EOS",
    "FORMAT",
    "LATEST",
    "MODEL",
    "MQAN",
    "NO_ANSWER",
    "RECORD",
    "SPECIALS",
    "VOCABULARY",
    "Answerer",
    "Batch",
    "Collator",
    "Corpus",
    "Encoded",
    "Ids",
    "Joined",
    "Lexicon",
    "ModelConfig",
    "NgramTraining",
    "Saved",
    "VectorTable",
    "Vectors",
    "Words",
    "autocast",
    "by_length",
    "check_name",
    "first_device",
    "greedy",
    "index_path",
    "is_line",
    "join_vectors",
    "kept_characters",
    "load_weights",
    "open_vectors",
    "pick_device",
    "read_corpus",
    "require_device",
    "train_ngrams",
    "word_numbers",
    "write_matrix",
    "write_ngrams",
    "write_words",
]
