/* Compiled versions of the counting loops of ROUGE, BLEU and nF1.

This module is optional: without a compiler, equivalent Python functions in _rouge155.py, bleu.py and nf1.py are used,
and every score is the same. Those functions explain what is counted and why, and tests compare this module with them.

Strings are first replaced with numbers, and equal strings get the same number. The rest works on arrays of numbers. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t Number;

/* A text, stored as the numbers of its words. */
typedef struct {
    Number *words;
    Py_ssize_t length;
} Text;

/* Several texts, such as the sentences of a summary. `all` contains their words one after another, and `parts` are the
   texts in it. */
typedef struct {
    Text all;
    Text *parts;
    Py_ssize_t count;
    Py_ssize_t longest;
} Texts;

/* Return the number of a word, or -1 with an error set. A new word gets the next number. */
static Number
number_word(PyObject *word, PyObject *vocabulary)
{
    PyObject *known = PyDict_GetItemWithError(vocabulary, word);
    if (known != NULL)
        return (Number)PyLong_AsLong(known);
    if (PyErr_Occurred())
        return -1;
    Number number = (Number)PyDict_Size(vocabulary);
    PyObject *added = PyLong_FromLong(number);
    int failed = added == NULL || PyDict_SetItem(vocabulary, word, added) < 0;
    Py_XDECREF(added);
    return failed ? -1 : number;
}

/* Read lists of words, adding new words to the vocabulary. Return 0, or -1 with an error set. */
static int
read_texts(PyObject *lists, PyObject *vocabulary, Texts *found)
{
    Py_ssize_t total = 0, count = PyList_Size(lists);
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t size = PyList_Size(PyList_GetItem(lists, at));
        if (size < 0)
            return -1;
        total += size;
        found->longest = size > found->longest ? size : found->longest;
    }
    if (count < 0)
        return -1;
    found->all.words = malloc((size_t)(total + 1) * sizeof(Number));
    found->parts = malloc((size_t)(count + 1) * sizeof(Text));
    if (found->all.words == NULL || found->parts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; found->count < count; found->count++) {
        PyObject *list = PyList_GetItem(lists, found->count);
        Text *text = found->parts + found->count;
        *text = (Text){found->all.words + found->all.length, PyList_Size(list)};
        for (Py_ssize_t at = 0; at < text->length; at++) {
            Number number = number_word(PyList_GetItem(list, at), vocabulary);
            if (number < 0)
                return -1;
            text->words[at] = number;
        }
        found->all.length += text->length;
    }
    return 0;
}

static void
free_texts(Texts *texts)
{
    free(texts->all.words);
    free(texts->parts);
}

/* N-grams. An n-gram is stored as a pair: the number of its first n-1 words, and its last word. Pairs are numbered. */

typedef struct {
    uint64_t *keys; /* the pair plus 1, because 0 marks an empty slot */
    Number *numbers;
    size_t mask;
    Number known;
} Pairs;

static int
make_pairs(Pairs *pairs, Py_ssize_t most)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)most)
        slots *= 2;
    pairs->mask = slots - 1;
    pairs->known = 0;
    pairs->keys = calloc(slots, sizeof(uint64_t));
    pairs->numbers = malloc(slots * sizeof(Number));
    return pairs->keys != NULL && pairs->numbers != NULL ? 0 : -1;
}

static Number
number_pair(Pairs *pairs, Number first, Number second)
{
    uint64_t key = ((uint64_t)(uint32_t)first << 32 | (uint32_t)second) + 1;
    size_t slot = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & pairs->mask;
    while (pairs->keys[slot] != 0 && pairs->keys[slot] != key)
        slot = (slot + 1) & pairs->mask;
    if (pairs->keys[slot] == 0) {
        pairs->keys[slot] = key;
        pairs->numbers[slot] = pairs->known++;
    }
    return pairs->numbers[slot];
}

/* Count the n-grams of the first text that also occur in other texts: hits[0] for order 1, and so on. Each n-gram is
   counted at most as often as it occurs in any one of the other texts. Words have numbers below `distinct`. */
static int
count_ngrams(const Text *texts, Py_ssize_t count, Number distinct, int orders, Py_ssize_t *hits)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t t = 0; t < count; t++)
        total += texts[t].length;
    Pairs pairs = {NULL, NULL, 0, 0};
    Number *grams = malloc((size_t)(total + 1) * sizeof(Number));
    Number *counts = malloc(((size_t)total + (size_t)distinct + 1) * 2 * sizeof(Number));
    int failed = grams == NULL || counts == NULL || (orders > 1 && make_pairs(&pairs, total) < 0);
    if (failed)
        goto done;
    Py_ssize_t start = 0;
    for (Py_ssize_t t = 0; t < count; start += texts[t++].length)
        memcpy(grams + start, texts[t].words, (size_t)texts[t].length * sizeof(Number));
    for (int order = 1; order <= orders; order++) {
        if (order > 1) { /* extend the n-grams of the previous order by one word */
            memset(pairs.keys, 0, (pairs.mask + 1) * sizeof(uint64_t));
            pairs.known = 0;
            start = 0;
            for (Py_ssize_t t = 0; t < count; start += texts[t++].length)
                for (Py_ssize_t at = 0; at + order <= texts[t].length; at++)
                    grams[start + at] =
                        number_pair(&pairs, grams[start + at], texts[t].words[at + order - 1]);
            distinct = pairs.known;
        }
        Number *available = counts, *now = counts + distinct;
        memset(counts, 0, (size_t)distinct * 2 * sizeof(Number));
        start = texts[0].length;
        for (Py_ssize_t t = 1; t < count; start += texts[t++].length) {
            Py_ssize_t last = texts[t].length - order;
            for (Py_ssize_t at = 0; at <= last; at++) {
                Number gram = grams[start + at];
                if (++now[gram] > available[gram])
                    available[gram] = now[gram];
            }
            for (Py_ssize_t at = 0; at <= last; at++)
                now[grams[start + at]] = 0;
        }
        hits[order - 1] = 0;
        for (Py_ssize_t at = 0; at + order <= texts[0].length; at++)
            if (available[grams[at]] > 0) {
                available[grams[at]]--;
                hits[order - 1]++;
            }
    }
done:
    free(grams);
    free(counts);
    free(pairs.keys);
    free(pairs.numbers);
    return failed ? -1 : 0;
}

/* Summary-level LCS, as in _rouge155._mark. A row of the table is a bit vector (Hyyro 2004) of 64-bit words. */

typedef uint64_t Bits;

static int
count_bits(Bits bits)
{
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_popcountll(bits);
#else
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
#endif
}

static Bits
low_bits(Py_ssize_t count)
{
    return count >= 64 ? ~(Bits)0 : ((Bits)1 << count) - 1;
}

/* Return the LCS length in column j of a row, which is the number of clear bits below j. */
static Py_ssize_t
length_at(const Bits *row, Py_ssize_t j)
{
    Py_ssize_t set = 0;
    for (Py_ssize_t word = 0; word * 64 < j; word++)
        set += count_bits(row[word] & low_bits(j - word * 64));
    return j - set;
}

/* A candidate sentence, with the columns of each word that also occurs in the reference, as a bit vector. Other words
   can't match. They have no bit vector, so the memory for a long candidate is limited by the size of the reference. */
typedef struct {
    Text text;
    Py_ssize_t width; /* number of 64-bit words in a row */
    Bits *places;     /* shape (distinct words in both the sentence and the reference, width) */
    Number *slots;    /* for each word, its row in `places` plus 1, or 0 if it has none */
    const Number *wanted; /* how often each word occurs in the reference */
} Columns;

static void
find_places(Columns *columns)
{
    Number used = 0;
    for (Py_ssize_t j = 0; j < columns->text.length; j++) {
        Number *slot = columns->slots + columns->text.words[j];
        if (columns->wanted[columns->text.words[j]] == 0)
            continue;
        if (*slot == 0) {
            *slot = ++used;
            memset(columns->places + (used - 1) * columns->width, 0, (size_t)columns->width * sizeof(Bits));
        }
        columns->places[(*slot - 1) * columns->width + j / 64] |= (Bits)1 << (j % 64);
    }
}

static void
forget_places(Columns *columns)
{
    for (Py_ssize_t j = 0; j < columns->text.length; j++)
        columns->slots[columns->text.words[j]] = 0;
}

/* Mark the words of a reference sentence that are on its LCS with a candidate sentence. `rows` must have room for the
   table. */
static void
mark(Text reference, const Columns *columns, Bits *rows, char *marked)
{
    Py_ssize_t width = columns->width, j = columns->text.length, i = reference.length;
    for (Py_ssize_t word = 0; word < width; word++)
        rows[word] = low_bits(j - word * 64);
    for (Py_ssize_t at = 0; at < i; at++) {
        const Bits *row = rows + at * width;
        Bits *next = rows + (at + 1) * width;
        Number slot = columns->slots[reference.words[at]];
        if (slot == 0) {
            memcpy(next, row, (size_t)width * sizeof(Bits));
            continue;
        }
        const Bits *places = columns->places + (slot - 1) * width;
        Bits carry = 0;
        for (Py_ssize_t word = 0; word < width; word++) {
            Bits matches = row[word] & places[word], sum = row[word] + matches, with_carry = sum + carry;
            carry = (sum < matches) | (with_carry < carry);
            next[word] = (with_carry | (row[word] & ~matches)) & rows[word];
        }
    }
    Py_ssize_t length = length_at(rows + i * width, j);
    while (length > 0) {
        if (reference.words[i - 1] == columns->text.words[j - 1]) {
            i--, j--, length--;
            marked[i] = 1;
        }
        else if (!(rows[i * width + (j - 1) / 64] >> ((j - 1) % 64) & 1) ||
                 length_at(rows + (i - 1) * width, j) == length)
            i--;
        else
            j--;
    }
}

/* Count the marked words of the reference, each at most as often as it occurs in either text. Return -1 if memory runs
   out. */
static Py_ssize_t
count_lcs_hits(const Texts *candidate, const Texts *reference, Number distinct)
{
    Py_ssize_t hits = -1, width = (candidate->longest + 63) / 64;
    Columns columns = {{NULL, 0}, 0, NULL, NULL, NULL};
    columns.slots = calloc((size_t)distinct + 1, sizeof(Number));
    Bits *rows = malloc((size_t)((reference->longest + 1) * width + 1) * sizeof(Bits));
    char *marked = calloc((size_t)reference->all.length + 1, 1);
    Number *left = calloc((size_t)distinct * 2 + 1, sizeof(Number)), *right = left + distinct;
    if (columns.slots == NULL || rows == NULL || marked == NULL || left == NULL)
        goto done;
    Py_ssize_t shared = 0;
    for (Py_ssize_t at = 0; at < reference->all.length; at++)
        shared += right[reference->all.words[at]]++ == 0;
    columns.wanted = right;
    shared = shared < candidate->longest ? shared : candidate->longest;
    columns.places = malloc((size_t)(shared * width + 1) * sizeof(Bits));
    if (columns.places == NULL)
        goto done;
    for (Py_ssize_t c = 0; c < candidate->count; c++) {
        columns.text = candidate->parts[c];
        columns.width = (columns.text.length + 63) / 64;
        find_places(&columns);
        for (Py_ssize_t r = 0; r < reference->count; r++) {
            Text sentence = reference->parts[r];
            mark(sentence, &columns, rows, marked + (sentence.words - reference->all.words));
        }
        forget_places(&columns);
    }
    for (Py_ssize_t at = 0; at < candidate->all.length; at++)
        left[candidate->all.words[at]]++;
    hits = 0;
    for (Py_ssize_t at = 0; at < reference->all.length; at++) {
        Number word = reference->all.words[at];
        if (marked[at] && left[word] > 0 && right[word] > 0) {
            hits++;
            left[word]--;
            right[word]--;
        }
    }
done:
    free(columns.places);
    free(columns.slots);
    free(rows);
    free(marked);
    free(left);
    return hits;
}

/* The arguments are the candidate and the reference, as lists of sentences, which are lists of words. */
static PyObject *
count_rouge(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "count_rouge takes 2 arguments, but got %zd", count);
    PyObject *result = NULL, *vocabulary = PyDict_New();
    Texts candidate = {{NULL, 0}, NULL, 0, 0}, reference = {{NULL, 0}, NULL, 0, 0};
    Py_ssize_t hits[2], lcs;
    if (vocabulary == NULL || read_texts(arguments[0], vocabulary, &candidate) < 0 ||
        read_texts(arguments[1], vocabulary, &reference) < 0)
        goto done;
    Text texts[2] = {candidate.all, reference.all};
    Number distinct = (Number)PyDict_Size(vocabulary);
    Py_ssize_t left = texts[0].length, right = texts[1].length;
    lcs = count_lcs_hits(&candidate, &reference, distinct);
    if (lcs < 0 || count_ngrams(texts, 2, distinct, 2, hits) < 0)
        PyErr_NoMemory();
    else
        result = Py_BuildValue("((nnn)(nnn)(nnn))", hits[0], left, right, hits[1], left > 0 ? left - 1 : 0,
                               right > 0 ? right - 1 : 0, lcs, left, right);
done:
    Py_XDECREF(vocabulary);
    free_texts(&candidate);
    free_texts(&reference);
    return result;
}

/* The arguments are the texts, as lists of words, and the highest order to count. The hits of higher orders are 0. */
static PyObject *
ngram_hits(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    long orders = count == 2 ? PyLong_AsLong(arguments[1]) : 0;
    if (orders < 1 || orders > 4)
        return PyErr_Format(PyExc_TypeError, "ngram_hits takes a list of texts and a highest order from 1 to 4");
    PyObject *result = NULL, *vocabulary = PyDict_New();
    Texts texts = {{NULL, 0}, NULL, 0, 0};
    Py_ssize_t hits[4] = {0, 0, 0, 0};
    if (vocabulary == NULL || read_texts(arguments[0], vocabulary, &texts) < 0)
        goto done;
    if (texts.count == 0)
        PyErr_SetString(PyExc_ValueError, "ngram_hits needs at least one text");
    else if (count_ngrams(texts.parts, texts.count, (Number)PyDict_Size(vocabulary), (int)orders, hits) < 0)
        PyErr_NoMemory();
    else
        result = Py_BuildValue("nnnn", hits[0], hits[1], hits[2], hits[3]);
done:
    Py_XDECREF(vocabulary);
    free_texts(&texts);
    return result;
}

/* The normalization of nF1, as in nf1.normalize. */

static int
is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static int
is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

static int
is_article(const char *word, size_t length)
{
    return (length == 1 && word[0] == 'a') || (length == 2 && memcmp(word, "an", 2) == 0) ||
           (length == 3 && memcmp(word, "the", 3) == 0);
}

/* Copy an ASCII text to `target` in lowercase and without punctuation. Return the end of the copy, or NULL if the text
   is not ASCII. */
static char *
strip(const char *text, Py_ssize_t size, char *target)
{
    for (Py_ssize_t at = 0; at < size; at++) {
        char c = text[at];
        if ((unsigned char)c >= 128)
            return NULL;
        if (c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        if (is_letter_or_digit(c) || c <= ' ' || c == '\x7f')
            *target++ = c;
    }
    return target;
}

static PyObject *
normalize_ascii(PyObject *module, PyObject *given)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(given, &size);
    if (text == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear(); /* the text contains half of a surrogate pair */
        Py_RETURN_NONE;
    }
    char few[256], *buffer = size < (Py_ssize_t)sizeof(few) ? few : malloc((size_t)size);
    if (buffer == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    char *end = strip(text, size, buffer), *kept = buffer;
    int gap = 0; /* whether the next word needs a space before it */
    for (char *at = buffer; end != NULL && at < end;) {
        char *start = at;
        while (at < end && is_letter_or_digit(*at))
            at++;
        if (at == start)
            at++; /* a space, or a control character, which is kept */
        if (is_space(*start) || is_article(start, (size_t)(at - start))) {
            gap = kept > buffer;
            continue;
        }
        if (gap)
            *kept++ = ' ';
        gap = 0;
        memmove(kept, start, (size_t)(at - start));
        kept += at - start;
    }
    if (end != NULL)
        result = PyUnicode_FromStringAndSize(buffer, kept - buffer);
    if (buffer != few)
        free(buffer);
    if (end == NULL)
        Py_RETURN_NONE;
    return result;
}

static PyMethodDef functions[] = {
    {"count_rouge", (PyCFunction)(void (*)(void))count_rouge, METH_FASTCALL,
     "Count ROUGE hits like _rouge155.count_in_python."},
    {"ngram_hits", (PyCFunction)(void (*)(void))ngram_hits, METH_FASTCALL,
     "Count the first text's n-grams that also occur in other texts, for each order up to the highest."},
    {"normalize_ascii", normalize_ascii, METH_O,
     "Normalize a text like nf1.normalize. Return None if it is not ASCII."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_speedups", "Compiled counting loops; see _speedups.c.", 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&definition);
}
