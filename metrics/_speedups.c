/* The counting loops of ROUGE, BLEU and nF1, compiled.

Optional: where there is no compiler, the functions of the same meaning in _rouge155.py, bleu.py and nf1.py are used,
and every number is the same. They say what is counted, and why; tests hold these here to them.

Strings are numbered first (equal strings, equal numbers), and all else is done on arrays of numbers. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t Number;

/* A text as the numbers of its words. */
typedef struct {
    Number *words;
    Py_ssize_t length;
} Text;

/* Append the number of each string of a list; new strings get the next numbers. Return 0, or -1 with an error set. */
static int
number_words(PyObject *list, PyObject *vocabulary, Text *text)
{
    Py_ssize_t size = PyList_Size(list);
    for (Py_ssize_t at = 0; at < size; at++) {
        PyObject *word = PyList_GetItem(list, at);
        PyObject *known = word ? PyDict_GetItemWithError(vocabulary, word) : NULL;
        Number number;
        if (known != NULL) {
            number = (Number)PyLong_AsLong(known);
        }
        else {
            if (PyErr_Occurred())
                return -1;
            number = (Number)PyDict_Size(vocabulary);
            PyObject *added = PyLong_FromLong(number);
            int failed = added == NULL || PyDict_SetItem(vocabulary, word, added) < 0;
            Py_XDECREF(added);
            if (failed)
                return -1;
        }
        text->words[text->length++] = number;
    }
    return size < 0 ? -1 : 0;
}

/* N-grams. An n-gram is the pair of the (n-1)-gram that it begins with and its last word; a pair has a number too. */

typedef struct {
    uint64_t *keys; /* the pair plus 1, so that 0 is an empty slot */
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

/* Return where a pair is, or where it would be. */
static size_t
find_slot(const Pairs *pairs, uint64_t key)
{
    size_t slot = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & pairs->mask;
    while (pairs->keys[slot] != 0 && pairs->keys[slot] != key)
        slot = (slot + 1) & pairs->mask;
    return slot;
}

/* Make room for so many more pairs. Return 0, or -1 with an error set. */
static int
grow_pairs(Pairs *pairs, Py_ssize_t more)
{
    Pairs grown = {NULL, NULL, 0, 0};
    if (pairs->keys != NULL && 2 * (size_t)(pairs->known + more) <= pairs->mask + 1)
        return 0;
    if (make_pairs(&grown, pairs->known + more) < 0) {
        free(grown.keys);
        free(grown.numbers);
        PyErr_NoMemory();
        return -1;
    }
    for (size_t slot = 0; pairs->keys != NULL && slot <= pairs->mask; slot++)
        if (pairs->keys[slot] != 0) {
            size_t free_slot = find_slot(&grown, pairs->keys[slot]);
            grown.keys[free_slot] = pairs->keys[slot];
            grown.numbers[free_slot] = pairs->numbers[slot];
        }
    grown.known = pairs->known;
    free(pairs->keys);
    free(pairs->numbers);
    *pairs = grown;
    return 0;
}

static void
clear_pairs(Pairs *pairs)
{
    memset(pairs->keys, 0, (pairs->mask + 1) * sizeof(uint64_t));
    pairs->known = 0;
}

static Number
number_pair(Pairs *pairs, Number first, Number second)
{
    uint64_t key = ((uint64_t)(uint32_t)first << 32 | (uint32_t)second) + 1;
    size_t slot = find_slot(pairs, key);
    if (pairs->keys[slot] == 0) {
        pairs->keys[slot] = key;
        pairs->numbers[slot] = pairs->known++;
    }
    return pairs->numbers[slot];
}

/* Count the n-grams of the first text that others have, each at most as often as the text that has it most often:
   hits[0] for order 1, and so on. Words are numbered below `distinct`. */
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
        if (order > 1) { /* from the grams of the order below to those of this one */
            clear_pairs(&pairs);
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

/* Summary-level LCS, as in _rouge155._mark: a row of the table is a bit vector (Hyyro 2004), in words of 64 bits. */

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

/* Return the LCS length that a row has in column j: its clear bits below j. */
static Py_ssize_t
length_at(const Bits *row, Py_ssize_t j)
{
    Py_ssize_t set = 0;
    for (Py_ssize_t word = 0; word * 64 < j; word++)
        set += count_bits(row[word] & low_bits(j - word * 64));
    return j - set;
}

/* A candidate sentence: where each of its words that the reference has stands, as bits of columns. Other words match
   nothing, and without rows for them a long text of a stranger's takes no more room than the reference allows. */
typedef struct {
    Text text;
    Py_ssize_t width; /* words of 64 bits in a row */
    Bits *places;     /* (distinct words of sentence and reference, width) */
    Number *slots;    /* word to its row of places plus 1; 0 for words that are not there */
    const Number *wanted; /* how often the reference has each word */
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

/* Mark the words of a reference sentence on its LCS with a candidate sentence. `rows` has room for the table. */
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

/* Sentences of numbered words: one text after the other, and where each begins. */
typedef struct {
    Text all;
    Text *sentences;
    Py_ssize_t count;
    Py_ssize_t longest;
} Sentences;

/* Make room for so many words in so many sentences; return -1 with an error set if there is none. */
static int
make_sentences(Sentences *made, Py_ssize_t words, Py_ssize_t sentences)
{
    if (words >= INT32_MAX / 2) {
        PyErr_SetString(PyExc_OverflowError, "a text has too many words");
        return -1;
    }
    made->all.words = malloc((size_t)(words + 1) * sizeof(Number));
    made->sentences = malloc((size_t)(sentences + 1) * sizeof(Text));
    if (made->all.words == NULL || made->sentences == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Read lists of words; the dict has their numbers. */
static int
read_lists(PyObject *lists, PyObject *vocabulary, Sentences *found)
{
    Py_ssize_t total = 0, count = PyList_Size(lists);
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t size = PyList_Size(PyList_GetItem(lists, at));
        if (size < 0)
            return -1;
        total += size;
    }
    if (count < 0 || make_sentences(found, total, count) < 0)
        return -1;
    for (; found->count < count; found->count++) {
        Text *sentence = found->sentences + found->count;
        sentence->words = found->all.words + found->all.length;
        sentence->length = 0;
        if (number_words(PyList_GetItem(lists, found->count), vocabulary, sentence) < 0)
            return -1;
        found->all.length += sentence->length;
    }
    return 0;
}

/* Return the number of a word's base form; a dict that does not know it adds it (__missing__). -1 with an error set. */
static Number
base_number(PyObject *numbers, const char *letters, Py_ssize_t length)
{
    PyObject *word = PyUnicode_FromStringAndSize(letters, length);
    if (word == NULL)
        return -1;
    PyObject *known = PyDict_GetItemWithError(numbers, word);
    Py_XINCREF(known);
    if (known == NULL && !PyErr_Occurred())
        known = PyObject_GetItem(numbers, word);
    long number = known ? PyLong_AsLong(known) : -1;
    Py_DECREF(word);
    Py_XDECREF(known);
    return (Number)number;
}

/* Split a text into sentences of words: runs of ASCII letters and digits, in lower case, by their base forms. */
static int
read_text(PyObject *bytes, char separator, PyObject *numbers, Pairs *dense, Sentences *found)
{
    char *given, *text;
    Py_ssize_t size, ends = 1;
    if (PyBytes_AsStringAndSize(bytes, &given, &size) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < size; at++)
        ends += given[at] == separator;
    text = malloc((size_t)size + 1);
    if (text == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int failed = make_sentences(found, size / 2 + 1, ends) < 0 || grow_pairs(dense, size / 2 + 1) < 0;
    Text sentence = {found->all.words, 0};
    for (Py_ssize_t at = 0; at <= size && !failed;) {
        Py_ssize_t start = at;
        for (; at < size; at++) {
            char letter = given[at];
            if (letter >= 'A' && letter <= 'Z')
                letter += 'a' - 'A';
            else if (!((letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9')))
                break;
            text[at] = letter;
        }
        if (at > start) {
            Number number = base_number(numbers, text + start, at - start);
            failed = number < 0;
            sentence.words[sentence.length++] = number_pair(dense, 0, number);
        }
        if ((at == size || given[at] == separator) && sentence.length > 0) {
            found->sentences[found->count++] = sentence;
            found->all.length += sentence.length;
            found->longest = sentence.length > found->longest ? sentence.length : found->longest;
            sentence.words += sentence.length;
            sentence.length = 0;
        }
        at++;
    }
    free(text);
    return failed ? -1 : 0;
}

static void
free_sentences(Sentences *sentences)
{
    free(sentences->all.words);
    free(sentences->sentences);
}

/* Count the words of the reference that are marked, none more often than each text has it; -1 without memory. */
static Py_ssize_t
count_lcs_hits(const Sentences *candidate, const Sentences *reference, Number distinct)
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
        columns.text = candidate->sentences[c];
        columns.width = (columns.text.length + 63) / 64;
        find_places(&columns);
        for (Py_ssize_t r = 0; r < reference->count; r++) {
            Text sentence = reference->sentences[r];
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

/* Return the counts of a candidate and one reference; NULL with an error set. */
static PyObject *
count_pair(const Sentences *candidate, const Sentences *reference, Number distinct)
{
    Text texts[2] = {candidate->all, reference->all};
    Py_ssize_t hits[2], left = texts[0].length, right = texts[1].length;
    Py_ssize_t lcs = count_lcs_hits(candidate, reference, distinct);
    if (lcs < 0 || count_ngrams(texts, 2, distinct, 2, hits) < 0)
        return PyErr_NoMemory();
    return Py_BuildValue("((nnn)(nnn)(nnn))", hits[0], left, right, hits[1], left > 0 ? left - 1 : 0,
                         right > 0 ? right - 1 : 0, lcs, left, right);
}

/* (candidate, references, separator, numbers of base forms): texts as bytes, in UTF-8. */
static PyObject *
rouge_counts(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    char *separator;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "rouge_counts takes 4 arguments; given %zd", count);
    Py_ssize_t references = PyList_Size(arguments[1]);
    if (references < 0 || PyBytes_AsStringAndSize(arguments[2], &separator, NULL) < 0)
        return NULL;
    Pairs dense = {NULL, NULL, 0, 0}; /* numbers of these texts' words, from 0 */
    Sentences candidate = {{NULL, 0}, NULL, 0, 0};
    PyObject *result = PyList_New(0);
    int failed = result == NULL || read_text(arguments[0], *separator, arguments[3], &dense, &candidate) < 0;
    for (Py_ssize_t at = 0; at < references && !failed; at++) {
        Sentences reference = {{NULL, 0}, NULL, 0, 0};
        PyObject *counts = NULL, *text = PyList_GetItem(arguments[1], at);
        if (read_text(text, *separator, arguments[3], &dense, &reference) == 0)
            counts = count_pair(&candidate, &reference, dense.known);
        failed = counts == NULL || PyList_Append(result, counts) < 0;
        Py_XDECREF(counts);
        free_sentences(&reference);
    }
    free_sentences(&candidate);
    free(dense.keys);
    free(dense.numbers);
    if (failed)
        Py_CLEAR(result);
    return result;
}

/* (texts, highest order): lists of words. */
static PyObject *
ngram_hits(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "ngram_hits takes 2 arguments; given %zd", count);
    long orders = PyLong_AsLong(arguments[1]);
    if (orders < 1 || orders > 4)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "orders are 1 to 4; given %ld", orders);
    PyObject *result = NULL, *vocabulary = PyDict_New();
    Sentences texts = {{NULL, 0}, NULL, 0, 0};
    Py_ssize_t hits[4];
    if (vocabulary == NULL || read_lists(arguments[0], vocabulary, &texts) < 0)
        goto done;
    if (texts.count == 0) {
        PyErr_SetString(PyExc_ValueError, "ngram_hits needs at least one text");
        goto done;
    }
    if (count_ngrams(texts.sentences, texts.count, (Number)PyDict_Size(vocabulary), (int)orders, hits) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    result = PyList_New(0);
    for (long order = 0; result != NULL && order < orders; order++) {
        PyObject *number = PyLong_FromSsize_t(hits[order]);
        if (number == NULL || PyList_Append(result, number) < 0)
            Py_CLEAR(result);
        Py_XDECREF(number);
    }
done:
    Py_XDECREF(vocabulary);
    free_sentences(&texts);
    return result;
}

/* nF1's normal form, as in nf1.normalize. */

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

/* Write a text of ASCII without punctuation and capitals; return its end, or NULL if there are other characters. */
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
        PyErr_Clear(); /* half of a surrogate pair */
        Py_RETURN_NONE;
    }
    char few[256], *buffer = size < (Py_ssize_t)sizeof(few) ? few : malloc((size_t)size);
    if (buffer == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    char *end = strip(text, size, buffer), *kept = buffer;
    int gap = 0; /* whether a space is due before what comes next */
    for (char *at = buffer; end != NULL && at < end;) {
        char *start = at;
        while (at < end && is_letter_or_digit(*at))
            at++;
        if (at == start)
            at++; /* a space, or a control character, which stays */
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
    {"rouge_counts", (PyCFunction)(void (*)(void))rouge_counts, METH_FASTCALL,
     "Do what _rouge155.count does, of texts in UTF-8."},
    {"ngram_hits", (PyCFunction)(void (*)(void))ngram_hits, METH_FASTCALL,
     "Count the first text's n-grams that others have, for each order up to the highest."},
    {"normalize_ascii", normalize_ascii, METH_O,
     "Do what nf1.normalize does; None for a text that is not ASCII."},
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
