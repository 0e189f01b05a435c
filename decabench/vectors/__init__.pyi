from .contextual import quiet_transformers as quiet_transformers
from .skipgram import Corpus as Corpus
from .skipgram import NgramTraining as NgramTraining
from .skipgram import read_corpus as read_corpus
from .skipgram import read_texts as read_texts
from .skipgram import train_ngrams as train_ngrams
from .tokenizer import EOS as EOS
from .tokenizer import INIT as INIT
from .tokenizer import PAD as PAD
from .tokenizer import SPECIALS as SPECIALS
from .tokenizer import UNKNOWN as UNKNOWN
from .tokenizer import Ids as Ids
from .tokenizer import Lexicon as Lexicon
from .tokenizer import detokenize as detokenize
from .tokenizer import split_words as split_words
from .tokenizer import tokenize as tokenize
from .vector_files import PACKAGES as PACKAGES
from .vector_files import index_path as index_path
from .vector_files import is_line as is_line
from .vector_files import join_vectors as join_vectors
from .vector_files import open_vectors as open_vectors
from .vector_files import short_name as short_name
from .vector_files import write_matrix as write_matrix
from .vector_files import write_ngram_vectors as write_ngram_vectors
from .vector_files import write_word_vectors as write_word_vectors
from .word_vectors import JoinedVectors as JoinedVectors
from .word_vectors import NgramVectors as NgramVectors
from .word_vectors import NoVectors as NoVectors
from .word_vectors import Vectors as Vectors
from .word_vectors import WordTable as WordTable
from .word_vectors import WordVectors as WordVectors
from .word_vectors import is_contextual as is_contextual
from .word_vectors import ngrams as ngrams
from .word_vectors import split_name as split_name

__all__ = [
    "EOS",
    "INIT",
    "PACKAGES",
    "PAD",
    "SPECIALS",
    "UNKNOWN",
    "Corpus",
    "Ids",
    "JoinedVectors",
    "Lexicon",
    "NgramTraining",
    "NgramVectors",
    "NoVectors",
    "Vectors",
    "WordTable",
    "WordVectors",
    "detokenize",
    "index_path",
    "is_contextual",
    "is_line",
    "join_vectors",
    "ngrams",
    "open_vectors",
    "quiet_transformers",
    "read_corpus",
    "read_texts",
    "short_name",
    "split_name",
    "split_words",
    "tokenize",
    "train_ngrams",
    "write_matrix",
    "write_ngram_vectors",
    "write_word_vectors",
]
